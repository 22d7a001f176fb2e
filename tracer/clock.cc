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

struct Moment {
  uint64_t units;
  uint64_t ns;
};

Moment Now() { return {ClockNow(), MonotonicNs()}; }

Moment Loaded() {
  g_clock.counter = CounterIsInvariant();
  return Now();
}

}  // namespace

ClockState g_clock;

namespace {
const Moment g_loaded = Loaded();
}  // namespace

double CalibrateClock() {
  if (!g_clock.counter) return 4;
  constexpr uint64_t kEnoughNs = 1'000'000;
  Moment now = Now();
  while (now.ns - g_loaded.ns < kEnoughNs) now = Now();
  return static_cast<double>(now.ns - g_loaded.ns) / static_cast<double>(now.units - g_loaded.units);
}

}  // namespace torchtrace
