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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_MONOTONIC_CLOCK_H_
