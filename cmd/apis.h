// The verbs under `torchtrace apis`, each in a file of its own.

#ifndef TORCHTRACE_CMD_APIS_H_
#define TORCHTRACE_CMD_APIS_H_

#include <ostream>
#include <vector>

#include "absl/status/status.h"
#include "cmd/cli/options.h"
#include "serialize/reports/reports.h"

namespace torchtrace {

// Their names begin with `apis `.
extern const Command kApisCoverageCommand;
extern const Command kApisNameCommand;
extern const Command kApisScanCommand;

// What `apis coverage --format json` writes of traces: against the public APIs of their framework. Nothing if there is
// no such list.
absl::Status WriteDefaultCoverage(const std::vector<StatsTrace>& traces, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_APIS_H_
