// OpenTrace opens whatever holds a trace, as verbs that read take it: an output
// folder, a log, or a file of another format (docs/IMPORT.md), told by its
// first bytes and then by its name.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_OPEN_TRACE_H_
#define TORCHTRACE_SERIALIZE_IMPORT_OPEN_TRACE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// `-` is standard input. A folder without a log is read by its api_trace.yaml or
// .txt, or api_configs.yaml or .txt. Errors name the path and what was expected there.
// `observer` may be null, and outlives the trace.
absl::StatusOr<std::unique_ptr<Trace>> OpenTrace(const std::string& path, ReadingObserver* observer = nullptr);

// Of a trace that OpenTrace opened: how it is written, "torchtrace log" or what its
// importer says; and what that format can't say, a sentence each, for the user to be told
// once. The notes are complete when the trace was read or counted.
std::string TraceFormat(const Trace& trace);
bool IsImported(const Trace& trace);  // it is no log
std::vector<std::string> TraceNotes(const Trace& trace);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_OPEN_TRACE_H_
