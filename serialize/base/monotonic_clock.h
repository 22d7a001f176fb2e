// The clock that never goes back, and that all processes of a machine share.

#ifndef TORCHTRACE_SERIALIZE_BASE_MONOTONIC_CLOCK_H_
#define TORCHTRACE_SERIALIZE_BASE_MONOTONIC_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace torchtrace {

// CLOCK_MONOTONIC, in nanoseconds.
inline int64_t MonotonicNowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Files with a later time are damaged. Sums and differences of three such times don't overflow.
inline constexpr int64_t kMostMonotonicNs = 3'000'000'000'000'000'000;

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_MONOTONIC_CLOCK_H_
