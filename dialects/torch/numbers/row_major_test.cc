#include "dialects/torch/numbers/row_major.h"

#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "dialects/torch/numbers/element_type.h"
#include "dialects/torch/numbers/sums.h"
#include "gtest/gtest.h"

namespace torchtrace::torch_dialect {
namespace {

struct StridedView {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

uint64_t CountOf(const StridedView& view) {
  return std::accumulate(view.sizes.begin(), view.sizes.end(), uint64_t{1}, std::multiplies<>());
}

// One element after the other.
std::vector<std::byte> PlainCopy(const std::byte* data, size_t element_size, const StridedView& view) {
  std::vector<std::byte> copy;
  const uint64_t count = CountOf(view);
  copy.reserve(count * element_size);
  for (uint64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    auto rest = static_cast<int64_t>(i);
    for (size_t d = view.sizes.size(); d-- > 0; rest /= view.sizes[d]) place += rest % view.sizes[d] * view.strides[d];
    const std::byte* const element = data + place * static_cast<int64_t>(element_size);
    copy.insert(copy.end(), element, element + element_size);
  }
  return copy;
}

std::vector<std::byte> InOrder(const StridedElements& elements) {
  std::vector<std::byte> bytes;
  ForEachBlock(elements, [&](const std::byte* block, size_t count) {
    // All blocks but the last are full.
    EXPECT_LE(count * elements.element_size, kBlockBytes);
    EXPECT_EQ(bytes.size() % kBlockBytes, 0u);
    bytes.insert(bytes.end(), block, block + count * elements.element_size);
  });
  return bytes;
}
std::vector<std::byte> InOrder(const std::byte* data, size_t element_size, const StridedView& view) {
  return InOrder({data, element_size, view.sizes, view.strides});
}

std::vector<std::byte> RandomBytes(size_t count) {
  std::vector<std::byte> bytes(count);
  std::mt19937 random(1);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(RowMajorTest, AnyStrides) {
  const std::vector<std::byte> data = RandomBytes(5 << 20);
  std::mt19937 random(1);
  for (const size_t element_size : {1u, 2u, 4u, 8u, 16u}) {
    for (int i = 0; i < 300; ++i) {
      StridedView view;
      const size_t rank = random() % 6;
      for (size_t d = 0; d < rank; ++d) {
        view.sizes.push_back(1 + random() % (random() % 2 ? 4 : 20));
        view.strides.push_back(random() % 3 ? random() % 40 : 0);
      }
      // Some dimensions as if they were cut from the next.
      for (size_t d = rank; d-- > 1;) {
        if (random() % 2) view.strides[d - 1] = view.strides[d] * view.sizes[d];
      }
      int64_t last = 0;
      for (size_t d = 0; d < rank; ++d) last += (view.sizes[d] - 1) * view.strides[d];
      if (CountOf(view) > 20000 || (last + 2) * element_size > data.size()) continue;
      const std::byte* const middle = data.data() + 1;
      ASSERT_EQ(InOrder(middle, element_size, view), PlainCopy(middle, element_size, view)) << element_size << " " << i;
    }
  }
}

TEST(RowMajorTest, TransposedMatrices) {
  const std::vector<std::byte> data = RandomBytes(5 << 20);
  const StridedView views[] = {
      {{64, 64}, {1, 64}},   {{257, 131}, {1, 257}},     {{2, 70000}, {1, 4}},  // too long for a panel
      {{4, 2000}, {1, 100}}, {{3, 70, 900}, {0, 1, 70}}, {{2, 33, 200, 1}, {33 * 200, 1, 33, 7}},
  };
  for (const size_t element_size : {1, 2, 4, 8, 16}) {
    for (const StridedView& view : views) {
      ASSERT_EQ(InOrder(data.data(), element_size, view), PlainCopy(data.data(), element_size, view))
          << element_size << " " << &view - views;
    }
  }
  // Fewer rows in a panel than in a cache line.
  const StridedView long_rows = {{70, 30000}, {1, 70}};
  ASSERT_EQ(InOrder(data.data(), 1, long_rows), PlainCopy(data.data(), 1, long_rows));
}

TEST(RowMajorTest, ThreadsAtOnce) {
  const std::vector<std::byte> data = RandomBytes(1 << 20);
  const StridedView view = {{200, 300}, {1, 200}};
  const std::vector<std::byte> expected = PlainCopy(data.data(), 4, view);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) ASSERT_EQ(InOrder(data.data(), 4, view), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RowMajorTest, FlippedSigns) {
  const std::vector<std::byte> data = RandomBytes(1 << 20);
  const StridedView views[] = {{{}, {}}, {{1, 1}, {5, 7}}, {{5000}, {1}}, {{70, 90}, {1, 70}}, {{3, 7}, {7, 2}}};
  for (const auto& [element_size, part_size] : {std::pair(2, 2), {4, 4}, {8, 8}, {4, 2}, {8, 4}, {16, 8}}) {
    for (const StridedView& view : views) {
      for (int flipped = 0; flipped < 4; ++flipped) {
        const bool real = (flipped & 1) != 0, imaginary = (flipped & 2) != 0;
        std::vector<std::byte> expected = PlainCopy(data.data(), element_size, view);
        for (size_t end = part_size; end <= expected.size(); end += part_size) {
          const bool is_real = (end - part_size) % element_size == 0;
          if (is_real ? real : imaginary) expected[end - 1] ^= std::byte{0x80};
        }
        ASSERT_EQ(InOrder({data.data(),
                           static_cast<size_t>(element_size),
                           view.sizes,
                           view.strides,
                           {real, imaginary},
                           static_cast<size_t>(part_size)}),
                  expected)
            << element_size << " " << part_size << " " << &view - views << " " << flipped;
      }
    }
  }
}

TEST(RowMajorTest, NoElements) {
  EXPECT_TRUE(InOrder(nullptr, 4, {{0}, {1}}).empty());
  EXPECT_TRUE(InOrder(nullptr, 4, {{3, 0, 5}, {7, 9, 2}}).empty());
}

}  // namespace
}  // namespace torchtrace::torch_dialect
