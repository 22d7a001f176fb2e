#include "tracer/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace torchtrace {
namespace {

bool CounterIsInvariant() {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  constexpr unsigned kPowerManagement = 0x80000007;
  return __get_cpuid(kPowerManagement, &a, &b, &c, &d) && (d & 1u << 8);
#else
  return false;
#endif
}

constexpr int kReadings = 8;

ClockReading Loaded() {
  g_clock.counter = CounterIsInvariant();
  return ReadClock();
}

}  // namespace

ClockState g_clock;

namespace {
const ClockReading g_loaded = Loaded();
}  // namespace

ClockReading ReadClock() {
  ClockReading closest = {};
  uint64_t smallest_gap = UINT64_MAX;
  for (int i = 0; i < kReadings; ++i) {
    const uint64_t before = ClockNow();
    const uint64_t ns = MonotonicNs();
    const uint64_t gap = ClockNow() - before;
    if (gap >= smallest_gap) continue;
    smallest_gap = gap;
    closest = {before + gap / 2, ns};
  }
  return closest;
}

double CalibrateClock() {
  if (!g_clock.counter) return 4;
  constexpr uint64_t kEnoughNs = 1'000'000;
  ClockReading now = ReadClock();
  while (now.monotonic_ns - g_loaded.monotonic_ns < kEnoughNs) now = ReadClock();
  return static_cast<double>(now.monotonic_ns - g_loaded.monotonic_ns) /
         static_cast<double>(now.units - g_loaded.units);
}

}  // namespace torchtrace
