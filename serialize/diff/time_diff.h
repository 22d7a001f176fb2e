// Two traces compared by what their rows did per step: times, calls, memory, FLOPs, and what of it is noise.

#ifndef TORCHTRACE_SERIALIZE_DIFF_TIME_DIFF_H_
#define TORCHTRACE_SERIALIZE_DIFF_TIME_DIFF_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "serialize/model/memory_event.h"
#include "serialize/reports/repeated_stats.h"

namespace torchtrace {

// A number per step, or of the whole run.
struct Measured {
  double value = 0;
  // How far that of another run may be by chance. Nothing: unknown, as nothing repeats it.
  std::optional<double> error = 0;
};

// B's minus A's.
struct Difference {
  double value = 0;
  std::optional<double> noise;  // of both together

  Difference(const Measured& a, const Measured& b);
};

struct MeasuredRow {
  bool called = false;
  Measured calls = {}, self_time_ns = {}, device_ns = {}, allocated = {}, flops = {};
};

// What both traces have and the comparison counts.
struct ComparedNumbers {
  bool calls = true;
  bool times = false;
  bool device = false;
  bool memory = false;
  bool flops = false;
};

enum class RowChange : uint8_t { kRemoved, kAdded, kSlower, kFaster, kChanged };

struct RowDifference {
  uint32_t row = 0;
  RowChange change = RowChange::kChanged;  // kChanged: neither slower nor faster
  MeasuredRow a = {}, b = {};

  // The time that is compared: of devices if both traces have it, and the row runs something there, else of the calls.
  Measured MeasuredRow::* Time(const ComparedNumbers& numbers) const;
  Difference Of(Measured MeasuredRow::* number) const { return {a.*number, b.*number}; }
};

struct TimeSide {
  uint64_t steps = 0;  // of all processes, that are compared
  MeasuredRow whole;   // all rows together
  std::vector<std::pair<MemoryDevice, uint64_t>> peaks;
};

struct TimeDiff {
  bool per_step = false;  // false: a trace has no steps that repeat one another, so whole runs are compared
  uint64_t warm_up = 0;   // the steps left out of each process
  ComparedNumbers numbers;
  TimeSide a, b;
  std::vector<RowDifference> rows;  // that differ by more than noise, or that only one trace has
  uint64_t within_noise = 0;        // rows
  uint64_t unrepeated = 0;          // rows that may differ by noise alone, which nothing tells
  uint64_t same = 0;                // rows

  bool different() const { return !rows.empty(); }
  // Whether a difference of that number is more than noise. If even that of all calls is not known, any one is.
  bool IsReal(const Difference& difference, Measured MeasuredRow::* number) const {
    const bool known = Difference(a.whole.*number, b.whole.*number).noise.has_value();
    if (!difference.noise.has_value()) return !known && difference.value != 0;
    return difference.value > *difference.noise || -difference.value > *difference.noise;
  }
};

struct TimeDiffOptions {
  bool rows_are_steps = false;
  uint64_t skip_steps =
      0;  // of each process the first ones, which no call of the traces is in; then nothing is warm-up
  bool compare_counts = true;
};

// Of two traces. A row's time per step is the median of the steps in which it has calls, times their share. Its error
// is that of the median: by the median absolute deviation, with 99.7 % confidence by Student's t, as if there were no
// more than kMostIndependent steps, since what slows a machine lasts for many. Numbers that are no times are means,
// with the error of the mean. Without steps the error is that of the sum, by the standard deviation of equal calls;
// rows that are steps have that of a single one.
//
// Warm-up are each process's first step and those after it that took unusually long, as many as any process has.
inline constexpr uint64_t kMostIndependent = 10;
TimeDiff CompareTimes(const RepeatedStats& stats, const TimeDiffOptions& options);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_TIME_DIFF_H_
