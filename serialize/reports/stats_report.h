// The tables of `torchtrace stats`: calls, share, configs and time, by API, config,
// family, level, thread, process, rank, label or calling line, over one trace or several side by
// side. Reads each trace once; memory goes with the configs and threads. Equal configs
// of different traces count as one.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_STATS_REPORT_H_
#define TORCHTRACE_SERIALIZE_REPORTS_STATS_REPORT_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/base/glob.h"
#include "serialize/configs/coarsen.h"
#include "serialize/reports/stats_format.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

enum class StatsBy : uint8_t { kApi, kConfig, kLevel, kThread, kProcess, kRank, kLabel, kFamily, kLine };
// kCalls, kConfigs, kTime and kSelf: the most first.
enum class StatsSort : uint8_t { kCalls, kConfigs, kTime, kSelf, kName, kFirst };

// `api`, `config`, ...; InvalidArgument with the choices, and the nearest one.
absl::StatusOr<StatsBy> ParseStatsBy(std::string_view text);
absl::StatusOr<StatsFormat> ParseStatsFormat(std::string_view text);
absl::StatusOr<StatsSort> ParseStatsSort(std::string_view text);

// A trace and what the table calls it.
struct StatsTrace {
  Trace* trace = nullptr;
  std::string name;
};

struct StatsOptions {
  StatsBy by = StatsBy::kApi;
  StatsFormat format = StatsFormat::kText;
  StatsSort sort = StatsSort::kCalls;
  uint64_t top = 0;         // so many rows, the first in that order; 0: all
  GlobFilter filter;        // over API names; totals are of what it accepts
  std::vector<int> levels;  // empty: all
  Coarsening ignore;        // configs that are equal without it count as one
  bool sum = false;         // several traces as one, and not side by side
  // Without times, exceptions and the order of calls where these aren't needed:
  // counting is several times faster than reading.
  bool times = true;
};

// Rows that are equal in what they are sorted by come by first appearance. Time is what
// passed between entering and leaving, summed; self time leaves out the recorded calls
// inside. docs/STATS.md lists the keys of JSON and the columns of CSV. InvalidArgument
// for an order that needs times which the traces don't have, Aborted when `out` fails.
absl::Status WriteStats(const std::vector<StatsTrace>& traces, const StatsOptions& options, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_STATS_REPORT_H_
