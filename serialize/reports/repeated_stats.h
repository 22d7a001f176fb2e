// The rows of `torchtrace stats` of traces that are compared, by what they did in each step of the program.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_REPEATED_STATS_H_
#define TORCHTRACE_SERIALIZE_REPORTS_REPEATED_STATS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "serialize/model/memory_event.h"
#include "serialize/reports/repetitions.h"
#include "serialize/reports/reports.h"

namespace torchtrace {

// A step of a process.
struct Repetition {
  uint32_t process = 0;
  uint64_t step = 0;               // 0: calls outside of steps that ended
  std::optional<int64_t> wall_ns;  // nothing: it did not end
};

// How much the sum of a row's self times varies from run to run, by its calls: those of one config repeat one another.
struct RowSpread {
  double variance = 0;  // of the sum of the repeated calls
  double repeated_ns = 0;
  double all_ns = 0;  // with the calls that nothing repeats
};

struct RepeatedTrace {
  std::vector<Repetition> repetitions;                   // the first one is no step
  std::vector<RepetitionSum> rows;                       // by row, then by repetition
  std::vector<RepetitionSum> whole;                      // of all calls, by repetition
  std::vector<RowSpread> spreads;                        // by row
  RowSpread spread;                                      // of all calls
  std::vector<std::pair<MemoryDevice, uint64_t>> peaks;  // bytes: the most of a process
  uint64_t untimed = 0;                                  // calls
  uint64_t without_formula = 0;                          // calls whose FLOPs are not known
  bool has_times = false;
  bool has_device = false;
  bool has_memory = false;
};

// What rows are called. Made when it is asked for: rows may be many.
class RowNames {
 public:
  virtual ~RowNames() = default;
  virtual std::string Text(uint32_t row) const = 0;
  // What `stats` writes of it: by the names of its columns.
  virtual nlohmann::ordered_json Members(uint32_t row) const = 0;
  virtual std::optional<int> LevelOf(uint32_t row) const = 0;      // nothing: of several
  virtual std::optional<double> NumberOf(uint32_t row) const = 0;  // by which names that are numbers are sorted
};

struct RepeatedStats {
  std::vector<RepeatedTrace> traces;  // rows of the same name have the same number in all
  std::unique_ptr<const RowNames> names;
  std::string title;               // of a column of names
  std::vector<std::string> notes;  // remarks to print with a report
};

// Reads each trace once, as WriteStats does; memory grows with the rows and with the steps in which each has calls.
// InvalidArgument for a grouping whose rows are of one trace. `traces` and `options` must outlive the result.
absl::StatusOr<RepeatedStats> RepeatStats(const std::vector<StatsTrace>& traces, const StatsOptions& options);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_REPEATED_STATS_H_
