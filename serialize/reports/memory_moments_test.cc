#include "serialize/reports/memory_moments.h"

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace torchtrace {
namespace {

using testing::ElementsAre;

TEST(MemoryMoments, EachEventIsOneIfThereAreFew) {
  MemoryMoments moments(8);
  moments.Add(100, 1, 10);
  moments.Add(200, 2, 30);
  moments.Add(300, 3, 20);
  moments.AddBlock(1, 3, "activation", 10);
  moments.AddBlock(2, UINT64_MAX, "parameter", 20);
  const auto bytes = moments.Bytes();
  EXPECT_THAT(bytes.at("activation"), ElementsAre(10, 10, 0));
  EXPECT_THAT(bytes.at("parameter"), ElementsAre(0, 20, 20));
}

TEST(MemoryMoments, OfManyTheMostBytesOfEachSpanRemain) {
  MemoryMoments moments(10);
  for (uint64_t event = 1; event <= 1000; ++event)
    moments.Add(static_cast<int64_t>(event), event, event == 501 ? 99 : 1);
  ASSERT_LE(moments.moments().size(), 10U);
  ASSERT_GE(moments.moments().size(), 5U);
  bool found = false;
  for (const MemoryMoments::Moment& moment : moments.moments())
    found = found || (moment.event == 501 && moment.bytes == 99);
  EXPECT_TRUE(found);
}

TEST(MemoryMoments, BlocksBetweenMomentsAreNone) {
  MemoryMoments moments(2);
  for (uint64_t event = 1; event <= 100; ++event) moments.Add(static_cast<int64_t>(event), event, 100 - event);
  moments.AddBlock(2, 4, "other", 5);
  EXPECT_TRUE(moments.Bytes().empty());
}

}  // namespace
}  // namespace torchtrace
