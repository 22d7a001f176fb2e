// Writes a trace's calls into a table, a row each: `torchtrace export --calls`.
//
// Rows come in program order, each with the call's end. A call waits for its end while
// fewer than max_waiting_calls calls came after it; what is open for longer comes when it
// ends, so that memory goes with configs and open calls alone.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_CALL_EXPORT_H_
#define TORCHTRACE_SERIALIZE_EXPORT_CALL_EXPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "serialize/export/config_export.h"
#include "serialize/export/table_writer.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// call, parent, depth, level, api, config, start_ns, duration_ns, outcome, exception,
// process, thread, trace, host, pid, rank.
std::vector<Column> CallColumns();

struct CallExportOptions {
  ExportFilter filter;
  uint64_t max_waiting_calls = 100'000;
};

// `table` has CallColumns. Numbers of calls and parents are the trace's, whatever the
// filter leaves out. Does not call Finish.
absl::Status ExportCalls(Trace* trace, const std::string& trace_label, const CallExportOptions& options,
                         TableWriter* table);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_CALL_EXPORT_H_
