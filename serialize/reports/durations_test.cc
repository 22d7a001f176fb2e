#include "serialize/reports/durations.h"

#include <cmath>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

TEST(DurationsTest, SmallOnesAreExact) {
  Durations durations;
  EXPECT_EQ(durations.Percentile(50), 0);
  for (int ns = 1; ns <= 100; ++ns) durations.Add(ns, 1);
  EXPECT_EQ(durations.Percentile(50), 50);
  EXPECT_EQ(durations.Percentile(99), 99);
  EXPECT_EQ(durations.Percentile(100), 100);
  EXPECT_EQ(durations.least_ns(), 1);
  EXPECT_EQ(durations.most_ns(), 100);
}

TEST(DurationsTest, RanksAreWithinAPercentOfTheCalls) {
  Durations durations, half;
  for (int i = 0; i < 10'000; ++i) (i % 2 == 0 ? durations : half).Add(std::llround(std::exp(i * 0.003)), 1);
  durations.Add(half);
  EXPECT_EQ(durations.calls(), 10'000u);
  for (const double percent : {1.0, 50.0, 90.0, 99.0}) {
    const double expected = std::exp((percent * 100 - 1) * 0.003);
    EXPECT_NEAR(static_cast<double>(durations.Percentile(percent)), expected, 0.01 * expected + 1) << percent;
  }
}

TEST(DurationsTest, OneOfManyAndTheLargest) {
  Durations durations;
  durations.Add(123'456'789, 1'000'000);
  durations.Add(INT64_MAX, 1);
  durations.Add(-5, 1);
  EXPECT_NEAR(static_cast<double>(durations.Percentile(50)), 123'456'789, 1e6);
  EXPECT_EQ(durations.least_ns(), 0);
  EXPECT_EQ(durations.most_ns(), INT64_MAX);
}

}  // namespace
}  // namespace torchtrace
