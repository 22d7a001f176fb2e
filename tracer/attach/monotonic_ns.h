#ifndef TORCHTRACE_TRACER_ATTACH_MONOTONIC_NS_H_
#define TORCHTRACE_TRACER_ATTACH_MONOTONIC_NS_H_

#include <cstdint>
#include <ctime>

namespace torchtrace {

// The time of CLOCK_MONOTONIC, which all processes share.
inline int64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_ATTACH_MONOTONIC_NS_H_
