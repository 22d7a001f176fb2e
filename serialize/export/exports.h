// What is exported of a trace: its configs, its calls, the result of a dedup.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_EXPORTS_H_
#define TORCHTRACE_SERIALIZE_EXPORT_EXPORTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/base/matching.h"
#include "serialize/configs/dedup.h"
#include "serialize/export/exporter.h"
#include "serialize/export/table_writer.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// Writes a trace's configurations into a sink: what `torchtrace export` does.

// What an export is of: the configs whose API the filter accepts, of these levels (none:
// all).
struct ExportFilter {
  GlobFilter filter;
  std::vector<int> levels;

  bool Accepts(std::string_view identity) const;
};

// What the metadata of a process says about where and when it ran, -1 or empty when it
// doesn't.
struct ProcessOrigin {
  std::string label;  // its own (metadata `label`, which merge writes), else the trace's
  std::string host;
  int64_t pid = -1;
  int64_t rank = -1;
  bool clock = false;  // else its times may be unknown, and then all are 0
};
ProcessOrigin OriginOf(const ProcessInfo& process, const std::string& trace_label);

// A trace by its label, opened only when its turn comes, and closed before the next.
struct LabelledTrace {
  std::string label;
  std::function<absl::StatusOr<std::unique_ptr<Trace>>()> open;
  std::function<void(const Trace&)> done = {};  // called when it was read, if there is one
};

// With Provenance::kAlways a row for each trace, process and config, in the order of their
// first calls, with time. Else a row per config, sorted by its line or in the order in which
// the traces define them, as the exporter wants it. Does not call Finish.
absl::Status ExportConfigs(const std::vector<LabelledTrace>& traces, const ExportFilter& filter,
                           const Exporter& exporter, ConfigSink* sink);

// Writes a trace's calls into a table, a row each: `torchtrace export --calls`.
//
// Rows come in program order, each with the call's end. A call waits for its end while
// fewer than max_waiting_calls calls came after it; what is open for longer comes when it
// ends, so that memory goes with configs and open calls alone.

// call, parent, depth, level, api, config, ArgumentColumns(), start_ns, duration_ns, outcome, exception,
// process, thread, trace, host, pid, rank; file and line of the calling line (tables.h); tags, JSON.
std::vector<Column> CallColumns();

struct CallExportOptions {
  CallSelection selection;
  uint64_t max_waiting_calls = 100'000;
};

// `table` has CallColumns. Numbers of calls and parents are the trace's, whatever the
// selection leaves out. Does not call Finish.
absl::Status ExportCalls(Trace* trace, const std::string& trace_label, const CallExportOptions& options,
                         TableWriter* table);

// Writes the calls of traces into a sink, as they begin and end. Does not call Finish.
absl::Status ExportTimeline(const std::vector<LabelledTrace>& traces, const CallSelection& selection, CallSink* sink);

// How the result of Dedup is written: through a ConfigSink of any format.

struct DedupOutput {
  const Exporter* exporter = nullptr;
  bool counts = false;
  // Text: the sources behind each line. Any other format that has a place for them: a row for
  // each config and source, with the calls that it had there.
  bool provenance = false;
};

// Formats that other tools replay get, in place of a config of which parts were
// forgotten, one that was called. Returns what the format couldn't hold, a sentence
// each. Aborted when `out` fails.
absl::StatusOr<std::vector<std::string>> WriteDedup(const std::vector<DedupConfig>& configs,
                                                    const std::vector<DedupSource>& sources, const DedupOutput& output,
                                                    std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_EXPORTS_H_
