// The rows of `torchtrace stats`, with all amounts, as read from traces: for the report that prints them
// (stats_report.cc), and for others that need them as numbers.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_STATS_ROWS_H_
#define TORCHTRACE_SERIALIZE_REPORTS_STATS_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/base/saturating.h"
#include "serialize/model/config.h"
#include "serialize/model/memory_event.h"
#include "serialize/reports/report_table.h"
#include "serialize/reports/reports.h"
#include "serialize/trace/call_costs.h"

namespace torchtrace {

// What a row shows for all traces together, or for one of them.
struct StatsCells {
  CallTotal total;
  uint64_t configs = 0;
  uint64_t apis = 0;
  CallCost cost = {};
  std::optional<int64_t> wall_ns = {};  // of a step
  bool divided = true;                  // among forward and backward; by module

  void Add(const CallTotal& of_config) {
    total.Add(of_config);
    ++configs;
  }
  // Of calls that cost the same; those that raised cost nothing.
  void AddCost(const CallTotal& of_config, const CallCost& of_a_call) {
    const auto calls = static_cast<double>(of_config.calls - of_config.raised);
    if (of_a_call.flops.has_value()) cost.flops = cost.flops.value_or(0) + *of_a_call.flops * calls;
    if (of_a_call.bytes.has_value()) cost.bytes = cost.bytes.value_or(0) + *of_a_call.bytes * calls;
  }
};

struct StatsRow {
  std::vector<ReportCell> labels;  // for programs
  std::string text_label;          // for people
  // For sorting by name: numbers by their value.
  std::optional<double> number;
  int level = 0;                   // if rows are of one level
  size_t config = 0;               // one of the row, for the reader
  std::string_view identity = {};  // by config: its bytes (serialize/model/config.h)
  uint64_t order = 0;              // breaks ties
  StatsCells all;
  std::vector<StatsCells> traces;  // side by side
};

struct StatsCosts {
  CostSum sum;
  std::set<std::pair<int, std::string_view>> lacking_apis;  // without a formula, with their levels

  void Add(const ConfigHead& head, const CostSum& cost) {
    sum.Add(cost);
    if (cost.lacking > 0) lacking_apis.insert({head.level, head.api});
  }
  void Add(const StatsCosts& other) {
    sum.Add(other.sum);
    lacking_apis.insert(other.lacking_apis.begin(), other.lacking_apis.end());
  }
};

struct StatsTotals {
  uint64_t calls = 0;
  uint64_t apis = 0;
  uint64_t configs = 0;
  int64_t self_time_ns = 0;
  bool timed = false;
  bool has_device = false, has_memory = false;
  int64_t device_ns = 0;
  StatsCosts of_level = {}, cost = {};

  void Add(const StatsTotals& other) {
    calls += other.calls;
    apis += other.apis;
    configs += other.configs;
    AddSaturating(other.self_time_ns, &self_time_ns);
    timed = timed || other.timed;
    has_device = has_device || other.has_device;
    has_memory = has_memory || other.has_memory;
    AddSaturating(other.device_ns, &device_ns);
    of_level.Add(other.of_level);
    cost.Add(other.cost);
  }
};
// For all traces together, and for each one side by side.
struct StatsTotalsOfTraces {
  StatsTotals all;
  std::vector<StatsTotals> traces;
};

// What a grouping is, and how reports show it.
struct StatsGroupingTraits {
  StatsBy by;
  const char* name;
  const char* list;    // the JSON member for the rows
  const char* title;   // of the label column
  bool label_last;     // long labels
  bool by_level;       // a row is of one level
  bool apis;           // shows how many APIs
  bool configs;        // shows how many configs
  bool of_one_trace;   // no row has calls of two traces
  const char* labels;  // the names of the labels
};
// The groupings by their names. kTag is `tag:NAME`.
const std::vector<StatsGroupingTraits>& StatsGroupings();

// The rows of one grouping, sorted, and the totals of all calls. The traces must outlive it.
struct StatsTable {
  const StatsGroupingTraits* grouping = nullptr;
  bool side_by_side = false;  // rows and totals have each trace's amounts too
  bool costs = false;         // FLOPs and bytes are known
  // Some trace has them.
  bool has_times = false, has_device = false, memory = false;
  std::set<MemoryDevice> memory_devices;
  StatsSort sort = StatsSort::kCalls;
  std::map<int, StatsTotalsOfTraces> levels;
  StatsTotalsOfTraces totals;
  std::vector<StatsRow> rows;
  // All rows, or those of one level.
  struct Part {
    int level = 0;
    size_t begin = 0, end = 0;  // of rows
    uint64_t left_out = 0;      // by StatsOptions::top
  };
  std::vector<Part> parts;
  // By step: of the steps that ended, also those that are in no row, how long they took, and which took unusually long.
  struct LongStep {
    std::string name;
    int64_t ns = 0;
    double times = 0;  // the median of its process
  };
  std::vector<int64_t> step_walls_ns;
  std::vector<LongStep> long_steps;
  // Remarks about what is missing, and times that mean nothing.
  std::vector<std::string> notes;

  std::deque<std::string> coarse;  // owns coarsened identities
};

// Reads each trace once. Errors as WriteStats, but for the format and kKernel, whose rows it doesn't make.
absl::StatusOr<std::unique_ptr<const StatsTable>> ReadStats(const std::vector<StatsTrace>& traces,
                                                            const StatsOptions& options);

// "40 steps: mean 1.2 ms, p50 ...; long: step 7 (9.3 ms, x7.8)"; empty if no step ended.
std::string StepsLine(const StatsTable& table);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_STATS_ROWS_H_
