// The table of `torchtrace stats`: calls, share, configs and time, by API,
// config, level, thread or process, over one trace or several. Reads each trace
// once; memory goes with the configs and threads. Equal configs of different
// traces count as one.

#ifndef TORCHTRACE_SERIALIZE_STATS_REPORT_H_
#define TORCHTRACE_SERIALIZE_STATS_REPORT_H_

#include <cstdint>
#include <ostream>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/glob.h"
#include "serialize/trace.h"

namespace torchtrace {

enum class StatsBy : uint8_t { kApi, kConfig, kLevel, kThread, kProcess };
enum class StatsFormat : uint8_t { kText, kJson, kCsv };

// `api`, `config`, ...; `text`, `json`, `csv`. InvalidArgument with the choices.
absl::StatusOr<StatsBy> ParseStatsBy(std::string_view text);
absl::StatusOr<StatsFormat> ParseStatsFormat(std::string_view text);

struct StatsOptions {
  StatsBy by = StatsBy::kApi;
  StatsFormat format = StatsFormat::kText;
  uint64_t top = 0;         // so many rows, the most called first; 0: all
  GlobFilter filter;        // over API names; totals are of what it accepts
  std::vector<int> levels;  // empty: all
};

// Rows by calls, falling, then by first appearance. Time is what passed between
// entering and leaving, summed; self time leaves out the recorded calls inside.
// JSON: {"total_calls", "total_apis", "total_configs", "apis": [{"api",
// "level", "calls", "configs", "percent", "time_ns", "self_time_ns",
// "raised"}]}, and "configs", "levels", "threads" or "processes" for the other
// groupings. Aborted when `out` fails.
absl::Status WriteStats(const std::vector<Trace*>& traces, const StatsOptions& options, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_STATS_REPORT_H_
