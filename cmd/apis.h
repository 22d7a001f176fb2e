// The verbs under `torchtrace apis`, a file for each.

#ifndef TORCHTRACE_CMD_APIS_H_
#define TORCHTRACE_CMD_APIS_H_

#include "cmd/cli/options.h"

namespace torchtrace {

// Their names begin with `apis `.
extern const Command kApisCoverageCommand;
extern const Command kApisNameCommand;
extern const Command kApisScanCommand;

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_APIS_H_
