// The logs of an output folder, or one log file, of one process or of many, as a Trace.
// Reading streams: memory grows with the configurations, not with the calls. Nothing here throws.
//
//   absl::StatusOr<std::unique_ptr<Trace>> trace = OpenLogs("out");
//   (*trace)->Read([&](const CallRecord& call) { ... });

#ifndef TORCHTRACE_SERIALIZE_LOG_LOG_TRACE_H_
#define TORCHTRACE_SERIALIZE_LOG_LOG_TRACE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/log/log_reader.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// The logs of an output folder, or of the folder log/ itself, sorted; none if there are none. A log's own path is one.
absl::StatusOr<std::vector<std::string>> FindLogs(const std::string& path);

// `path`: an output folder (its log/*.ttlog are read) or one log file. Errors
// name the path and what was expected there. Damage is not an error: the readable part
// is read, and processes()[i].damage reports the rest. If at least one log is readable,
// a file that isn't a log counts as a damaged process. `observer` may be null, and must
// outlive the trace.
absl::StatusOr<std::unique_ptr<Trace>> OpenLogs(const std::string& path, ReadingObserver* observer = nullptr);

// One log file, which may have no path.
absl::StatusOr<std::unique_ptr<Trace>> OpenLogs(std::unique_ptr<LogFile> file, ReadingObserver* observer = nullptr);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_LOG_TRACE_H_
