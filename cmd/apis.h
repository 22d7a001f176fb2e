// The verbs under `torchtrace apis`, each in a file of its own.

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
