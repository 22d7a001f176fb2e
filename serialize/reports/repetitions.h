// What calls did in each repetition of a program, such as its steps: for comparisons that tell how much it varies.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_REPETITIONS_H_
#define TORCHTRACE_SERIALIZE_REPORTS_REPETITIONS_H_

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace torchtrace {

// Of a row's calls that were entered in the repetition.
struct RepetitionSum {
  uint32_t row = 0;
  uint32_t repetition = 0;
  uint64_t calls = 0;
  int64_t self_time_ns = 0;
  int64_t device_ns = 0;
  uint64_t allocated = 0;
  double flops = 0;
};

// Memory grows with the pairs that have calls, not with the calls.
class RepetitionSums {
 public:
  // Valid until the next call.
  RepetitionSum& Of(uint32_t row, uint32_t repetition) {
    if (row >= last_.size()) [[unlikely]] {
      last_.resize(std::max<size_t>(row + size_t{1}, 2 * last_.size()), UINT32_MAX);
    }
    // Fast path: a row is usually called several times in a repetition.
    uint32_t& last = last_[row];
    if (last == UINT32_MAX || sums_[last].repetition != repetition) {
      const auto [at, fresh] = index_.try_emplace({row, repetition}, static_cast<uint32_t>(sums_.size()));
      if (fresh) sums_.push_back({row, repetition});
      last = at->second;
    }
    return sums_[last];
  }

  // By row, then by repetition.
  std::vector<RepetitionSum> Take() {
    index_ = {};
    last_ = {};
    std::sort(sums_.begin(), sums_.end(), [](const RepetitionSum& a, const RepetitionSum& b) {
      return std::tie(a.row, a.repetition) < std::tie(b.row, b.repetition);
    });
    return std::move(sums_);
  }

 private:
  std::vector<RepetitionSum> sums_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> index_;  // into sums_
  std::vector<uint32_t> last_;                                          // by row: the one that was asked for last
};

// How much the self times of equal calls differ from one another.
class SelfTimeSpread {
 public:
  void Add(int64_t ns, uint64_t calls) {
    const auto value = static_cast<double>(ns), weight = static_cast<double>(calls);
    calls_ += calls;
    const double from_before = value - mean_;
    mean_ += from_before * weight / static_cast<double>(calls_);
    squares_ += weight * from_before * (value - mean_);
  }

  // The standard variance of the sum of so many such calls; meaningless for fewer than two.
  double VarianceOfSum() const {
    return calls_ < 2 ? 0 : squares_ * static_cast<double>(calls_) / static_cast<double>(calls_ - 1);
  }
  double sum() const { return mean_ * static_cast<double>(calls_); }
  uint64_t calls() const { return calls_; }

 private:
  uint64_t calls_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // of the differences from the mean
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_REPETITIONS_H_
