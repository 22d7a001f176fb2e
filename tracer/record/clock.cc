#include "tracer/record/clock.h"

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
#elif defined(__aarch64__)
  return true;  // by the architecture
#else
  return false;
#endif
}

constexpr int kSamples = 8;

ClockReading Loaded() {
  g_clock.counter = CounterIsInvariant();
  return ReadClock();
}

}  // namespace

ClockState g_clock;

namespace {
const ClockReading g_loaded = Loaded();
}  // namespace

ClockReading ClosestReading(const ClockSample* samples, int count) {
  const ClockSample* closest = samples;
  for (const ClockSample* sample = samples; sample != samples + count; ++sample) {
    if (sample->units_after - sample->units_before < closest->units_after - closest->units_before) closest = sample;
  }
  return {closest->units_before + (closest->units_after - closest->units_before) / 2, closest->monotonic_ns};
}

ClockReading ReadClock() {
  ClockSample samples[kSamples];
  for (ClockSample& sample : samples) {
    sample.units_before = ClockNow();
    sample.monotonic_ns = MonotonicNs();
    sample.units_after = ClockNow();
  }
  return ClosestReading(samples, kSamples);
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
