#include "serialize/trace/recent_calls.h"

#include <gtest/gtest.h>

namespace torchtrace {
namespace {

TEST(RecentCalls, FindsTheLatest) {
  RecentCalls<int> calls;
  EXPECT_EQ(calls.Find(0), nullptr);
  calls.Add(5, 50);
  calls.Add(7, 70);
  ASSERT_NE(calls.Find(5), nullptr);
  EXPECT_EQ(*calls.Find(5), 50);
  EXPECT_EQ(calls.Find(6), nullptr);
  EXPECT_EQ(calls.Find(8), nullptr);
  *calls.Find(7) = 71;
  EXPECT_EQ(*calls.Find(7), 71);
}

TEST(RecentCalls, ForgetsTheOldest) {
  RecentCalls<uint64_t> calls;
  for (uint64_t i = 0; i < 2 * kRecentCalls + 10; ++i) calls.Add(3 * i, i);
  const uint64_t oldest = kRecentCalls + 10;
  EXPECT_EQ(calls.Find(3 * (oldest - 1)), nullptr);
  for (uint64_t i = oldest; i < 2 * kRecentCalls + 10; ++i) {
    ASSERT_NE(calls.Find(3 * i), nullptr) << i;
    ASSERT_EQ(*calls.Find(3 * i), i);
    ASSERT_EQ(calls.Find(3 * i + 1), nullptr) << i;
  }
}

TEST(RecentCalls, BeginsAgain) {
  RecentCalls<int> calls;
  calls.Add(5, 1);
  calls.Add(5, 2);
  EXPECT_EQ(*calls.Find(5), 2);
  calls.Add(3, 4);
  EXPECT_EQ(calls.Find(5), nullptr);
  EXPECT_EQ(*calls.Find(3), 4);
}

}  // namespace
}  // namespace torchtrace
