#include "serialize/base/saturating.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

TEST(SaturatingTest, SumsStopAtTheirEnds) {
  int64_t sum = 1;
  AddSaturating(2, &sum);
  EXPECT_EQ(sum, 3);
  AddSaturating(INT64_MAX, &sum);
  EXPECT_EQ(sum, INT64_MAX);
  AddSaturating(-1, &sum);
  EXPECT_EQ(sum, INT64_MAX - 1);
  sum = -2;
  AddSaturating(INT64_MIN, &sum);
  EXPECT_EQ(sum, INT64_MIN);
  uint64_t whole = 1;
  AddSaturating(UINT64_MAX, &whole);
  EXPECT_EQ(whole, UINT64_MAX);
}

}  // namespace
}  // namespace torchtrace
