// OpenTrace opens the traces that verbs read: an output folder, a log, or a file
// of another format (docs/IMPORT.md), recognized by its first bytes and then
// by its name.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_OPEN_TRACE_H_
#define TORCHTRACE_SERIALIZE_IMPORT_OPEN_TRACE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// `-` is standard input. In a folder without a log, its api_trace.yaml or .txt, or
// api_configs.yaml or .txt, is read. Errors name the path and what was expected there.
// `observer` may be null, and must outlive the trace.
absl::StatusOr<std::unique_ptr<Trace>> OpenTrace(const std::string& path, ReadingObserver* observer = nullptr);

// For a trace that OpenTrace opened: its format, "torchtrace log" or the importer's name for it; and
// what that format lacks, a sentence each, to print once to the user. The notes are complete after
// the trace was read or counted.
std::string TraceFormat(const Trace& trace);
bool IsImported(const Trace& trace);  // it isn't a log
std::vector<std::string> TraceNotes(const Trace& trace);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_OPEN_TRACE_H_
