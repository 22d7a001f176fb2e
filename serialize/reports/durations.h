// The distribution of calls' durations: extremes and percentiles.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_DURATIONS_H_
#define TORCHTRACE_SERIALIZE_REPORTS_DURATIONS_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>

namespace torchtrace {

// Memory grows with the orders of magnitude, not with the calls: durations that share their first seven binary digits
// share a bucket, so a percentile is within 0.8 % of the call's duration. Least and most are exact.
class Durations {
 public:
  void Add(int64_t ns, uint64_t calls) {
    ns = std::max<int64_t>(ns, 0);
    least_ns_ = calls_ == 0 ? ns : std::min(least_ns_, ns);
    most_ns_ = std::max(most_ns_, ns);
    calls_ += calls;
    buckets_[Bucket(static_cast<uint64_t>(ns))] += calls;
  }

  void Add(const Durations& other) {
    if (other.calls_ == 0) return;
    least_ns_ = calls_ == 0 ? other.least_ns_ : std::min(least_ns_, other.least_ns_);
    most_ns_ = std::max(most_ns_, other.most_ns_);
    calls_ += other.calls_;
    for (const auto& [bucket, calls] : other.buckets_) buckets_[bucket] += calls;
  }

  uint64_t calls() const { return calls_; }
  int64_t least_ns() const { return least_ns_; }
  int64_t most_ns() const { return most_ns_; }

  // The time that `percent` of the calls took at most (nearest rank); 0 without calls.
  int64_t Percentile(double percent) const {
    const double wanted = percent / 100 * static_cast<double>(calls_);
    uint64_t below = 0;
    for (const auto& [bucket, calls] : buckets_) {
      below += calls;
      if (static_cast<double>(below) >= wanted) return std::clamp(Middle(bucket), least_ns_, most_ns_);
    }
    return most_ns_;
  }

 private:
  static constexpr int kDigits = 7;

  // The number of binary digits that are dropped, followed by those that are kept: ascending with `ns`.
  static uint32_t Bucket(uint64_t ns) {
    const int dropped = std::max(static_cast<int>(std::bit_width(ns)) - kDigits, 0);
    return static_cast<uint32_t>(dropped << kDigits) + static_cast<uint32_t>(ns >> dropped);
  }
  static int64_t Middle(uint32_t bucket) {
    const uint32_t dropped = bucket >> kDigits;
    const uint64_t lowest = uint64_t{bucket & ((1u << kDigits) - 1)} << dropped;
    return static_cast<int64_t>(lowest + (uint64_t{1} << dropped) / 2);
  }

  uint64_t calls_ = 0;
  int64_t least_ns_ = 0;
  int64_t most_ns_ = 0;
  std::map<uint32_t, uint64_t> buckets_;  // calls
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_DURATIONS_H_
