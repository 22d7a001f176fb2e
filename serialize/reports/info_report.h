// What `torchtrace info` shows: what was run, where and with what, how many
// calls were recorded in how many bytes, how each process ended, and whether
// anything is missing or damaged. Counts the trace once.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_INFO_REPORT_H_
#define TORCHTRACE_SERIALIZE_REPORTS_INFO_REPORT_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

struct InfoOptions {
  bool json = false;  // the object of run.json, else text
  // How the trace is written, where that is not a log.
  std::string format = {};
};

// `path` as the user gave it. Aborted when `out` fails.
absl::Status WriteInfo(Trace* trace, const std::string& path, const InfoOptions& options, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_INFO_REPORT_H_
