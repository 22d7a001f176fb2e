// Writes a trace's configurations into a sink: what `torchtrace export` does.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_CONFIG_EXPORT_H_
#define TORCHTRACE_SERIALIZE_EXPORT_CONFIG_EXPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/base/glob.h"
#include "serialize/export/config_sink.h"
#include "serialize/export/exporter.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_CONFIG_EXPORT_H_
