#include "serialize/base/ahead.h"

#include <atomic>
#include <memory>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

TEST(AheadTest, ItemsComeInOrder) {
  for (const size_t threads : {0, 1, 3, 20}) {
    Ahead<std::unique_ptr<size_t>> items(10, threads, [](size_t i) { return std::make_unique<size_t>(i * i); });
    for (size_t i = 0; i < 10; ++i) EXPECT_EQ(*items.Next(), i * i) << threads;
  }
}

TEST(AheadTest, OnlyAFewAreMadeBeforeTheyAreUsed) {
  std::atomic<size_t> made = 0;
  std::atomic<size_t> used = 0;
  std::atomic<bool> too_many = false;
  Ahead<int> items(1000, 2, [&](size_t) {
    if (++made > used + 4) too_many = true;
    return 0;
  });
  for (size_t i = 0; i < 1000; ++i) {
    items.Next();
    ++used;
  }
  EXPECT_FALSE(too_many);
  EXPECT_EQ(made, 1000u);
}

TEST(AheadTest, NotAllAreUsed) {
  std::atomic<size_t> made = 0;
  {
    Ahead<int> items(1000, 2, [&](size_t) { return static_cast<int>(++made); });
    items.Next();
  }
  EXPECT_LE(made, 6u);
}

}  // namespace
}  // namespace torchtrace
