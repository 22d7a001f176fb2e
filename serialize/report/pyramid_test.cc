#include "serialize/report/pyramid.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace torchtrace {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

uint64_t CallsOf(const std::vector<Pyramid::Level>& levels) {
  uint64_t calls = 0;
  for (const Pyramid::Level& level : levels) calls += level.calls.size();
  for (const Pyramid::Row& row : levels.front().merged) calls += row.count;
  return calls;
}

TEST(Pyramid, OfAFewCallsNoneIsMerged) {
  Pyramid pyramid(2'048'000, 1000);
  pyramid.Add(0, {.start = 10, .duration = 5, .depth = 1, .label = 1, .call = 1});
  pyramid.Add(0, {.start = 0, .duration = 2'000'000, .depth = 0, .label = 2, .call = 0});
  pyramid.Add(0, {.start = 2'040'000, .duration = 3, .depth = 0, .label = 3, .call = 2});
  const std::vector<Pyramid::Level> levels = pyramid.Take(0);
  ASSERT_FALSE(levels.empty());
  EXPECT_THAT(levels.front().merged, IsEmpty());
  EXPECT_THAT(levels.back().calls, ElementsAre(Field(&Pyramid::Row::call, 0)));
  EXPECT_EQ(levels.back().bin_ticks, 1000U);
  ASSERT_EQ(levels.back().merged.size(), 2U);
  EXPECT_EQ(levels.back().merged[0].start, 0U);
  EXPECT_EQ(levels.back().merged[0].depth, 1U);
  EXPECT_EQ(levels.back().merged[1].start, 2'040'000U);
  EXPECT_EQ(CallsOf(levels), 3U);
}

TEST(Pyramid, EachLevelHasItsCallsAndTheShorterOnesMerged) {
  Pyramid pyramid(2'048'000, 100'000);
  for (uint32_t i = 0; i < 1000; ++i) {
    pyramid.Add(0, {.start = i * 2000, .duration = 1 + i % 1000, .label = i % 1000 == 700 ? 7U : 1U, .call = i});
  }
  const std::vector<Pyramid::Level> levels = pyramid.Take(0);
  uint32_t before = 0;
  uint64_t longer = 0;
  for (size_t i = levels.size(); i-- > 0;) {
    longer += levels[i].calls.size();
    uint64_t merged = 0;
    uint32_t start = 0;
    for (const Pyramid::Row& row : levels[i].merged) {
      merged += row.count;
      EXPECT_GE(row.start, start);
      start = row.start;
      EXPECT_EQ(row.duration, levels[i].bin_ticks);
    }
    EXPECT_EQ(longer + merged, 1000U);
    for (const Pyramid::Row& row : levels[i].calls) EXPECT_GE(row.duration, levels[i].bin_ticks);
    EXPECT_TRUE(before == 0 || levels[i].bin_ticks < before);
    before = levels[i].bin_ticks;
  }
}

TEST(Pyramid, DropsTheFinestLevelsIfThereAreTooManyRows) {
  constexpr size_t kMost = 5000;
  Pyramid pyramid(10'000'000, kMost);
  for (uint32_t i = 0; i < 1'000'000; ++i) pyramid.Add(i % 3, {.start = i * 10, .duration = 1 + i % 7, .call = i});
  size_t rows = 0;
  uint64_t calls = 0;
  for (size_t track = 0; track < 3; ++track) {
    const std::vector<Pyramid::Level> levels = pyramid.Take(track);
    for (const Pyramid::Level& level : levels) rows += level.calls.size() + level.merged.size();
    calls += CallsOf(levels);
  }
  EXPECT_LE(rows, kMost);
  EXPECT_EQ(calls, 1'000'000U);
}

TEST(Pyramid, TheShortestTimelineIsOneLevel) {
  Pyramid pyramid(1, 10);
  pyramid.Add(0, {.start = 0, .duration = 1});
  EXPECT_EQ(CallsOf(pyramid.Take(0)), 1U);
  EXPECT_THAT(pyramid.Take(1), IsEmpty());
}

}  // namespace
}  // namespace torchtrace
