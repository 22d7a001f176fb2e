#include "serialize/diff/time_diff.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "serialize/trace/step_times.h"

namespace torchtrace {
namespace {

constexpr double kStandardErrors = 3;          // of a normal distribution, 99.7 % are within
constexpr double kDeviationOfNormal = 1.4826;  // by median absolute deviation
constexpr double kErrorOfMedian = 1.2533;      // in errors of the mean

// Standard errors within which as many are if the deviation is known from so many samples only (Student's t).
double StandardErrors(size_t samples) {
  static constexpr double kFew[] = {235.8, 19.21, 9.219, 6.620, 5.507, 4.904, 4.530, 4.277, 4.094, 3.957};
  const size_t free = samples - 1;
  if (free <= std::size(kFew)) return kFew[free - 1];
  return kStandardErrors + 9.57 / static_cast<double>(free);
}

double MedianOf(std::vector<double>* values) {
  const auto middle = values->begin() + static_cast<ptrdiff_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  if (values->size() % 2 != 0) return *middle;
  return (*middle + *std::max_element(values->begin(), middle)) / 2;
}

double SumOf(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

struct Typical {
  double median = 0;
  double deviation = 0;  // standard
};

Typical TypicalOf(std::vector<double>* values) {
  Typical typical = {MedianOf(values)};
  for (double& value : *values) value = std::abs(value - typical.median);
  typical.deviation = kDeviationOfNormal * MedianOf(values);
  return typical;
}

// Of the steps in which a row has calls; all others have none.
Measured TypicalPerStep(std::vector<double>* values, uint64_t steps) {
  if (values->empty()) return {};
  const size_t count = values->size();
  const double share = static_cast<double>(count) / static_cast<double>(steps);
  const Typical typical = TypicalOf(values);
  Measured measured = {share * typical.median, std::nullopt};
  if (count < 2) return measured;
  const auto independent = static_cast<double>(std::min<uint64_t>(count, kMostIndependent));
  measured.error = share * StandardErrors(count) * kErrorOfMedian * typical.deviation / std::sqrt(independent);
  return measured;
}

// With those that are 0. Numbers that don't vary from step to step are taken to be exact.
Measured MeanPerStep(const std::vector<double>& values, uint64_t steps) {
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(steps);
  for (const double value : values) squares += (value - mean) * (value - mean);
  squares += static_cast<double>(steps - values.size()) * mean * mean;
  // Rounding leaves a little of equal numbers.
  if (steps < 2 || squares <= 1e-18 * sum * sum) return {mean, 0};
  const double deviation = std::sqrt(squares / static_cast<double>(steps - 1));
  const auto independent = static_cast<double>(std::min(steps, kMostIndependent));
  return {mean, StandardErrors(steps) * deviation / std::sqrt(independent)};
}

// A trace's steps that are compared.
struct Steps {
  std::vector<bool> kept;  // by repetition
  uint64_t count = 0;
};

using StepsOfProcesses = std::map<uint32_t, std::vector<uint32_t>>;  // repetitions, in order

// Of processes whose calls are compared.
StepsOfProcesses EndedSteps(const RepeatedTrace& trace, uint64_t skip_steps) {
  std::set<uint32_t> compared;
  for (const RepetitionSum& sum : trace.whole) {
    if (sum.repetition > 0 && sum.calls > 0) compared.insert(trace.repetitions[sum.repetition].process);
  }
  StepsOfProcesses steps;
  for (uint32_t i = 1; i < trace.repetitions.size(); ++i) {
    const Repetition& repetition = trace.repetitions[i];
    if (!repetition.wall_ns.has_value() || repetition.step <= skip_steps) continue;
    if (compared.contains(repetition.process)) steps[repetition.process].push_back(i);
  }
  for (auto& [process, of_process] : steps) {
    std::sort(of_process.begin(), of_process.end(),
              [&](uint32_t x, uint32_t y) { return trace.repetitions[x].step < trace.repetitions[y].step; });
  }
  return steps;
}

bool Repeats(const StepsOfProcesses& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const auto& of_process) { return of_process.second.size() > 1; });
}

// Leaves most steps.
uint64_t WarmUpOf(const RepeatedTrace& trace, const StepsOfProcesses& steps) {
  uint64_t warm_up = 0;
  for (const auto& [process, of_process] : steps) {
    if (of_process.size() < 2) continue;
    std::vector<int64_t> walls;
    for (const uint32_t repetition : of_process) walls.push_back(*trace.repetitions[repetition].wall_ns);
    const StepSummary summary = SummarizeSteps(walls);
    uint64_t first = 1;
    while (first <= walls.size() / 3 && std::find(summary.odd.begin(), summary.odd.end(), first) != summary.odd.end()) {
      ++first;
    }
    warm_up = std::max(warm_up, first);
  }
  return warm_up;
}

Steps StepsAfter(const RepeatedTrace& trace, const StepsOfProcesses& steps, uint64_t warm_up) {
  Steps kept = {std::vector<bool>(trace.repetitions.size()), 0};
  for (const auto& [process, of_process] : steps) {
    for (size_t i = warm_up; i < of_process.size(); ++i) {
      kept.kept[of_process[i]] = true;
      ++kept.count;
    }
  }
  return kept;
}

class TimeComparison {
 public:
  TimeComparison(const RepeatedStats& stats, const TimeDiffOptions& options)
      : stats_(stats), options_(options), traces_{&stats.traces[0], &stats.traces[1]} {
    const StepsOfProcesses steps[] = {EndedSteps(*traces_[0], options.skip_steps),
                                      EndedSteps(*traces_[1], options.skip_steps)};
    diff_.per_step = Repeats(steps[0]) && Repeats(steps[1]);
    if (diff_.per_step && options.skip_steps == 0) {
      for (size_t i = 0; i < 2; ++i) diff_.warm_up = std::max(diff_.warm_up, WarmUpOf(*traces_[i], steps[i]));
    }
    for (size_t i = 0; i < 2; ++i) steps_[i] = StepsAfter(*traces_[i], steps[i], diff_.warm_up);
    // A run of few steps has no more than warm-up.
    if (diff_.per_step && (steps_[0].count == 0 || steps_[1].count == 0)) {
      diff_.warm_up = 0;
      for (size_t i = 0; i < 2; ++i) steps_[i] = StepsAfter(*traces_[i], steps[i], 0);
    }
    ComparedNumbers& numbers = diff_.numbers;
    numbers.calls = options.compare_counts;
    numbers.times = traces_[0]->has_times && traces_[1]->has_times;
    // Of whole runs nothing tells the noise.
    numbers.device = diff_.per_step && traces_[0]->has_device && traces_[1]->has_device;
    numbers.memory = traces_[0]->has_memory && traces_[1]->has_memory;
    TimeSide* const sides[] = {&diff_.a, &diff_.b};
    for (size_t i = 0; i < 2; ++i) {
      sides[i]->steps = diff_.per_step ? steps_[i].count : 0;
      sides[i]->peaks = traces_[i]->peaks;
      sides[i]->whole = Measure(i, traces_[i]->whole, traces_[i]->spread);
      if (diff_.per_step && options.rows_are_steps) of_a_step_[i] = OfAStep(i);
    }
    numbers.flops = diff_.a.whole.flops.value > 0 || diff_.b.whole.flops.value > 0;
  }

  TimeDiff Take() {
    size_t at[] = {0, 0};
    while (true) {
      std::optional<uint32_t> row;
      for (size_t i = 0; i < 2; ++i) {
        if (at[i] == traces_[i]->rows.size()) continue;
        row = std::min(row.value_or(UINT32_MAX), traces_[i]->rows[at[i]].row);
      }
      if (!row.has_value()) break;
      RowDifference difference = {*row};
      MeasuredRow* const sides[] = {&difference.a, &difference.b};
      for (size_t i = 0; i < 2; ++i) {
        const std::vector<RepetitionSum>& rows = traces_[i]->rows;
        const size_t begin = at[i];
        while (at[i] < rows.size() && rows[at[i]].row == *row) ++at[i];
        const std::vector<RowSpread>& spreads = traces_[i]->spreads;
        *sides[i] = Measure(i, std::span(rows).subspan(begin, at[i] - begin),
                            *row < spreads.size() ? spreads[*row] : RowSpread(), of_a_step_[i]);
      }
      Add(difference);
    }
    return std::move(diff_);
  }

 private:
  // Errors of one step, by all steps.
  struct StepErrors {
    std::optional<double> self_time_ns, device_ns;
  };

  // `of_a_step`: the row is a step of some processes, and its numbers are those of one of them.
  MeasuredRow Measure(size_t trace, std::span<const RepetitionSum> sums, const RowSpread& spread,
                      const std::optional<StepErrors>& of_a_step = std::nullopt) {
    MeasuredRow row;
    for (std::vector<double>* const values : {&calls_, &self_, &device_, &allocated_, &flops_}) values->clear();
    for (const RepetitionSum& sum : sums) {
      if (diff_.per_step && !steps_[trace].kept[sum.repetition]) continue;
      row.called = row.called || sum.calls > 0;
      calls_.push_back(static_cast<double>(sum.calls));
      self_.push_back(static_cast<double>(sum.self_time_ns));
      device_.push_back(static_cast<double>(sum.device_ns));
      allocated_.push_back(static_cast<double>(sum.allocated));
      flops_.push_back(sum.flops);
    }
    if (!diff_.per_step) {
      row.calls.value = SumOf(calls_);
      row.self_time_ns = {SumOf(self_), std::nullopt};
      if (spread.repeated_ns > 0) {
        row.self_time_ns.error = kStandardErrors * std::sqrt(spread.variance) * spread.all_ns / spread.repeated_ns;
      }
      row.device_ns = {SumOf(device_), std::nullopt};
      row.allocated.value = SumOf(allocated_);
      row.flops.value = SumOf(flops_);
      return row;
    }
    if (!row.called) return row;
    if (of_a_step.has_value()) {
      const auto processes = static_cast<double>(calls_.size());
      row.calls.value = SumOf(calls_) / processes;
      row.allocated.value = SumOf(allocated_) / processes;
      row.flops.value = SumOf(flops_) / processes;
      row.self_time_ns = {SumOf(self_) / processes, of_a_step->self_time_ns};
      row.device_ns = {SumOf(device_) / processes, of_a_step->device_ns};
      return row;
    }
    const uint64_t steps = steps_[trace].count;
    row.calls = MeanPerStep(calls_, steps);
    row.allocated = MeanPerStep(allocated_, steps);
    row.flops = MeanPerStep(flops_, steps);
    row.self_time_ns = TypicalPerStep(&self_, steps);
    row.device_ns = TypicalPerStep(&device_, steps);
    return row;
  }

  StepErrors OfAStep(size_t trace) const {
    std::vector<double> self, device;
    for (const RepetitionSum& sum : traces_[trace]->whole) {
      if (!steps_[trace].kept[sum.repetition]) continue;
      self.push_back(static_cast<double>(sum.self_time_ns));
      device.push_back(static_cast<double>(sum.device_ns));
    }
    if (self.size() < 2) return {};
    const double errors = StandardErrors(self.size());
    return {errors * TypicalOf(&self).deviation, errors * TypicalOf(&device).deviation};
  }

  void Add(RowDifference difference) {
    const MeasuredRow &a = difference.a, &b = difference.b;
    // A row outside of the steps that are compared.
    if (!a.called && !b.called) return;
    if (!a.called || !b.called) {
      difference.change = a.called ? RowChange::kRemoved : RowChange::kAdded;
      diff_.rows.push_back(difference);
      return;
    }
    const ComparedNumbers& numbers = diff_.numbers;
    const std::pair<bool, Measured MeasuredRow::*> all[] = {{numbers.times, &MeasuredRow::self_time_ns},
                                                            {numbers.device, &MeasuredRow::device_ns},
                                                            {numbers.calls, &MeasuredRow::calls},
                                                            {numbers.memory, &MeasuredRow::allocated},
                                                            {numbers.flops, &MeasuredRow::flops}};
    bool real = false, known = true, any = false;
    for (const auto& [counts, number] : all) {
      const Difference each = difference.Of(number);
      if (!counts || each.value == 0) continue;
      real = real || diff_.IsReal(each, number);
      known = known && each.noise.has_value();
      any = true;
    }
    if (!real) {
      ++(!any ? diff_.same : known ? diff_.within_noise : diff_.unrepeated);
      return;
    }
    Measured MeasuredRow::* const time = difference.Time(numbers);
    if ((numbers.times || numbers.device) && diff_.IsReal(difference.Of(time), time)) {
      difference.change = difference.Of(time).value > 0 ? RowChange::kSlower : RowChange::kFaster;
    }
    diff_.rows.push_back(difference);
  }

  const RepeatedStats& stats_;
  const TimeDiffOptions& options_;
  const RepeatedTrace* const traces_[2];
  Steps steps_[2];
  std::optional<StepErrors> of_a_step_[2];
  TimeDiff diff_;
  std::vector<double> calls_, self_, device_, allocated_, flops_;  // of the row that is measured, by step
};

}  // namespace

Difference::Difference(const Measured& a, const Measured& b) : value(b.value - a.value) {
  if (a.error.has_value() && b.error.has_value()) noise = std::hypot(*a.error, *b.error);
}

Measured MeasuredRow::* RowDifference::Time(const ComparedNumbers& numbers) const {
  const bool on_device = numbers.device && (a.device_ns.value != 0 || b.device_ns.value != 0);
  return on_device ? &MeasuredRow::device_ns : &MeasuredRow::self_time_ns;
}

TimeDiff CompareTimes(const RepeatedStats& stats, const TimeDiffOptions& options) {
  return TimeComparison(stats, options).Take();
}

}  // namespace torchtrace
