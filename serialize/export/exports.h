// Exports of a trace: its configs, its calls, the result of a dedup.

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
#include "serialize/export/table_facts.h"
#include "serialize/export/table_writer.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// Selects the configs whose API the filter accepts, of these levels (none: all).
struct ExportFilter {
  GlobFilter filter;
  std::vector<int> levels;

  bool Accepts(std::string_view identity) const;
};

// Where and when a process ran, by its metadata; -1 or empty: unknown.
struct ProcessOrigin {
  std::string label;  // its own (metadata `label`, which merge writes), else the trace's
  std::string host;
  int64_t pid = -1;
  int64_t rank = -1;
  bool clock = false;  // false: its times may be unknown, and are then all 0
};
ProcessOrigin OriginOf(const ProcessInfo& process, const std::string& trace_label);

// A labelled trace, opened only when its turn comes, and closed before the next.
struct LabelledTrace {
  std::string label;
  std::function<absl::StatusOr<std::unique_ptr<Trace>>()> open;
  std::function<void(const Trace&)> done = {};  // unless empty, called after the trace was read
};

// Writes the configs of traces into a sink: `torchtrace export`. With Provenance::kAlways it
// writes a row per trace, process and config, in the order of their first calls, with times.
// Of the calls that the selection leaves, with what `facts`, unless it is null, says of them.
// Otherwise a row per config that the filter accepts, sorted by line or in the order in which the
// traces define them, as the exporter requires. Does not call Finish.
struct ConfigExportOptions {
  ExportFilter filter;
  CallSelection selection = {};
  TableFacts* facts = nullptr;
};
absl::Status ExportConfigs(const std::vector<LabelledTrace>& traces, const ConfigExportOptions& options,
                           const Exporter& exporter, ConfigSink* sink);

// call, parent, depth, level, api, config, ArgumentColumns(), start_ns, duration_ns, outcome, exception,
// process, thread, trace, host, pid, rank; file and line of the calling line (tables.h); tags, JSON;
// device_ns; and of TableFacts module, step, M, N, K, flops, bytes.
std::vector<Column> CallColumns();

struct CallExportOptions {
  CallSelection selection;
  uint64_t max_waiting_calls = 100'000;
  TableFacts* facts = nullptr;  // null: their columns are empty
};

// Writes a trace's calls into a table with CallColumns, a row each: `torchtrace export --calls`.
// Calls and parents keep the trace's numbers, whatever the selection leaves out. Does not call
// Finish.
//
// Rows come in program order, each with the call's end. A call waits for its end while
// fewer than max_waiting_calls calls came after it; a call that is open for longer is written
// when it ends, so memory grows only with configs and open calls.
absl::Status ExportCalls(Trace* trace, const std::string& trace_label, const CallExportOptions& options,
                         TableWriter* table);

// Writes the calls of traces into a sink, as they begin and end. Does not call Finish.
absl::Status ExportTimeline(const std::vector<LabelledTrace>& traces, const CallSelection& selection, CallSink* sink);

// How the result of Dedup is written: through a ConfigSink of any format.
struct DedupOutput {
  const Exporter* exporter = nullptr;
  bool counts = false;
  // Text: the sources after each line. Other formats with a place for them: a row per config
  // and source, with the calls from that source.
  bool provenance = false;
  TableFacts* facts = nullptr;  // for the sizes in tables; may be null
};

// Writes the result of Dedup. In formats that other tools replay, a config with coarsened
// parts is replaced by one that was called. Returns what the format couldn't hold, a sentence
// each. Aborted when `out` fails.
absl::StatusOr<std::vector<std::string>> WriteDedup(const std::vector<DedupConfig>& configs,
                                                    const std::vector<DedupSource>& sources, const DedupOutput& output,
                                                    std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_EXPORTS_H_
