#include "serialize/trace/live_memory.h"

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

constexpr MemoryDevice kGpu = {MemoryKind::kCuda, 1};

TEST(LiveMemoryTest, PeaksAndWhatLives) {
  LiveMemory<int> memory;
  EXPECT_FALSE(memory.Apply(0, {.address = 64, .bytes = 100}, 1).has_value());
  EXPECT_FALSE(memory.Apply(0, {.address = 128, .bytes = 50}, 2).has_value());
  const auto ended = memory.Apply(0, {.freed = true, .address = 64});
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->bytes, 100u);
  EXPECT_EQ(ended->owner, 1);
  memory.Apply(0, {.address = 64, .bytes = 20}, 3);
  const auto& totals = memory.devices().at({0, {}});
  EXPECT_EQ(totals.live, 70u);
  EXPECT_EQ(totals.peak, 150u);
  EXPECT_EQ(totals.peak_at, 2u);
  int owners = 0;
  memory.ForEach([&](const ProcessDevice&, const auto& block) { owners += block.owner; });
  EXPECT_EQ(owners, 5);
}

TEST(LiveMemoryTest, ProcessesAndDevicesAreApart) {
  LiveMemory<int> memory;
  memory.Apply(0, {.address = 64, .bytes = 1});
  memory.Apply(1, {.address = 64, .bytes = 10});
  memory.Apply(0, {.device = kGpu, .address = 64, .bytes = 100});
  EXPECT_EQ(memory.devices().at({0, {}}).live, 1u);
  EXPECT_EQ(memory.devices().at({1, {}}).live, 10u);
  EXPECT_EQ(memory.devices().at({0, kGpu}).live, 100u);
}

TEST(LiveMemoryTest, FromBeforeTheTrace) {
  LiveMemory<int> memory;
  memory.Begin({0, kGpu}, 100);
  memory.Apply(0, {.freed = true, .device = kGpu, .address = 64, .bytes = 30});
  memory.Apply(0, {.device = kGpu, .address = 64, .bytes = 5});
  const auto& totals = memory.devices().at({0, kGpu});
  EXPECT_EQ(totals.peak, 100u);
  EXPECT_EQ(totals.peak_at, 0u);
  EXPECT_EQ(totals.live, 75u);
  memory.Apply(0, {.freed = true, .device = kGpu, .address = 65, .bytes = 300});
  EXPECT_EQ(totals.before, 0u);
  EXPECT_EQ(totals.live, 5u);
  EXPECT_EQ(totals.ends_before, 2u);
}

TEST(LiveMemoryTest, AParameterIsItsBlock) {
  LiveMemory<int> memory;
  const MemoryEvent parameter = {.address = 64};
  memory.Apply(0, parameter);
  EXPECT_EQ(memory.Find(0, parameter), nullptr);
  memory.Apply(0, {.address = 64, .bytes = 5});
  memory.Apply(0, parameter);
  EXPECT_TRUE(memory.Find(0, parameter)->parameter);
  memory.Apply(0, {.freed = true, .address = 64});
  memory.Apply(0, {.address = 64, .bytes = 5});
  EXPECT_FALSE(memory.Find(0, parameter)->parameter);
}

// Memory from before the trace, an end that was not recorded, numbers that no machine has.
TEST(LiveMemoryTest, WhatIsMissingOrWrong) {
  LiveMemory<int> memory;
  EXPECT_FALSE(memory.Apply(0, {.freed = true, .address = 64}).has_value());
  memory.Apply(0, {.address = 64, .bytes = 5}, 1);
  EXPECT_EQ(memory.Apply(0, {.address = 64, .bytes = 7}, 2)->owner, 1);
  EXPECT_EQ(memory.devices().at({0, {}}).live, 7u);
  memory.Apply(0, {.address = 1, .bytes = UINT64_MAX});
  memory.Apply(0, {.address = 2, .bytes = UINT64_MAX});
  const auto& totals = memory.devices().at({0, {}});
  EXPECT_GT(totals.live, uint64_t{1} << 44);
  EXPECT_EQ(totals.live, totals.peak);
}

}  // namespace
}  // namespace torchtrace
