#include "tracer/record/clock.h"

#include <iterator>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

TEST(ClockTest, TheClosestReadingCounts) {
  const ClockSample kSamples[] = {
      {1000, 5'000, 9'000'000},  // preempted after the clock
      {9'000'100, 90'000, 9'000'110},
      {9'000'120, 5'000'000, 12'000'000},
  };
  const ClockReading reading = ClosestReading(kSamples, std::size(kSamples));
  EXPECT_EQ(reading.units, 9'000'105u);
  EXPECT_EQ(reading.monotonic_ns, 90'000u);
}

TEST(ClockTest, AReadingIsNow) {
  const uint64_t units = ClockNow();
  const uint64_t ns = MonotonicNs();
  const ClockReading reading = ReadClock();
  EXPECT_GE(reading.units, units);
  EXPECT_LE(reading.units, ClockNow());
  EXPECT_GE(reading.monotonic_ns, ns);
  EXPECT_LE(reading.monotonic_ns, MonotonicNs());
}

TEST(ClockTest, UnitsAreAsCalibrated) {
  const double unit_ns = CalibrateClock();
  const ClockReading begin = ReadClock();
  ClockReading end = begin;
  while (end.monotonic_ns < begin.monotonic_ns + 20'000'000) end = ReadClock();
  const double slope =
      static_cast<double>(end.monotonic_ns - begin.monotonic_ns) / static_cast<double>(end.units - begin.units);
  EXPECT_NEAR(slope / unit_ns, 1, 0.02);
}

}  // namespace
}  // namespace torchtrace
