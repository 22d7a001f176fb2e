// The recorder's clock: the processor's counter if it runs at one speed on all cores (the time stamp counter of x86-64,
// the virtual counter of aarch64), CLOCK_MONOTONIC otherwise. A reading costs a few nanoseconds. Units are about 4 to
// 8 ns, on aarch64 1 to 40; a log's metadata gives the exact length.

#ifndef TORCHTRACE_TRACER_RECORD_CLOCK_H_
#define TORCHTRACE_TRACER_RECORD_CLOCK_H_

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "serialize/base/monotonic_clock.h"

namespace torchtrace {

#if defined(__x86_64__)
inline constexpr int kClockShift = 4;
#endif

// Set once by CalibrateClock, before any thread records.
struct ClockState {
  bool counter = false;  // the processor's counter is usable
};
extern ClockState g_clock __attribute__((visibility("default")));

inline uint64_t MonotonicNs() { return static_cast<uint64_t>(MonotonicNowNs()); }

// Time in clock units since an arbitrary moment, the same for all threads.
inline uint64_t ClockNow() {
#if defined(__x86_64__)
  if (g_clock.counter) return __rdtsc() >> kClockShift;
#elif defined(__aarch64__)
  if (g_clock.counter) {
    uint64_t ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
  }
#endif
  return MonotonicNs() >> 2;
}

// The clock and CLOCK_MONOTONIC at one moment.
struct ClockReading {
  uint64_t units;
  uint64_t monotonic_ns;
};
// CLOCK_MONOTONIC, and the clock right before and after it.
struct ClockSample {
  uint64_t units_before;
  uint64_t monotonic_ns;
  uint64_t units_after;
};
// The sample whose two clock readings are closest together: if the thread is preempted between the clocks, they don't
// belong to one moment.
ClockReading ClosestReading(const ClockSample* samples, int count);
// Reads the clock now. Async-signal-safe.
ClockReading ReadClock();

// Measures the clock against CLOCK_MONOTONIC since the library was loaded (waits until that is a millisecond) and
// returns nanoseconds per unit.
double CalibrateClock();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_CLOCK_H_
