#include "serialize/numbers/bad_storages.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

constexpr uint8_t kBoth = kHoldsNan | kHoldsInfinity;

TEST(BadStorages, PartsOfAStorage) {
  BadStorages storages;
  EXPECT_FALSE(storages.Knows(7));
  storages.Set(7, {0, 16, true}, 0);
  EXPECT_FALSE(storages.Knows(7));
  storages.Set(7, {0, 16, true}, kHoldsNan);
  storages.Set(7, {32, 48, true}, kHoldsInfinity);
  EXPECT_EQ(storages.Held(7, {}), kBoth);
  EXPECT_EQ(storages.Held(7, {8, 12, true}), kHoldsNan);
  EXPECT_EQ(storages.Held(7, {16, 32, true}), 0);
  EXPECT_EQ(storages.Held(8, {}), 0);
  // Written in the middle: the rest may still hold it.
  storages.Set(7, {4, 8, true}, 0);
  EXPECT_EQ(storages.Held(7, {4, 8, true}), 0);
  EXPECT_EQ(storages.Held(7, {0, 4, true}), kHoldsNan);
  EXPECT_EQ(storages.Held(7, {8, 16, true}), kHoldsNan);
  // With gaps: only the same bytes are known to be new.
  storages.Set(7, {0, 64, false}, 0);
  EXPECT_EQ(storages.Held(7, {}), kBoth);
  storages.Set(7, {0, 64, true}, 0);
  EXPECT_FALSE(storages.Knows(7));
}

TEST(BadStorages, ManyPartsBecomeOne) {
  BadStorages storages;
  for (uint64_t i = 0; i < 100; ++i) storages.Set(1, {8 * i, 8 * i + 4, true}, kHoldsNan);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(storages.Held(1, {8 * i, 8 * i + 4, true}), kHoldsNan);
  EXPECT_EQ(storages.Held(1, {800, 900, true}), 0);
}

TEST(BadStorages, KeepsTheLastUsed) {
  BadStorages storages(10);
  for (uint64_t i = 1; i <= 1000; ++i) {
    storages.Set(i, {}, kHoldsInfinity);
    EXPECT_TRUE(storages.Knows(1));  // used all the time
  }
  EXPECT_TRUE(storages.Knows(1000));
  EXPECT_FALSE(storages.Knows(2));
  EXPECT_TRUE(storages.forgot());
}

TEST(BadStorages, BytesOfTensors) {
  const auto text = [](const StorageBytes& bytes) {
    return std::to_string(bytes.begin) + "-" + std::to_string(bytes.end) + (bytes.dense ? " dense" : "");
  };
  const std::string all = "0-18446744073709551615";
  Value tensor = TensorValue({2, 3});
  EXPECT_EQ(text(BytesOfTensor(&tensor, {1, 1, 0})), "0-24 dense");
  EXPECT_EQ(text(BytesOfTensor(&tensor, {1, 1, 5})), "20-44 dense");
  EXPECT_EQ(text(BytesOfTensor(nullptr, {1, 1, 5})), all);
  const auto with_strides = [](std::vector<Dim> shape, std::vector<Dim> strides) {
    Value value = TensorValue(std::move(shape));
    value.tensor_bits |= kTensorHasStride;
    value.strides = std::move(strides);
    return value;
  };
  tensor = with_strides({3, 2}, {1, 3});
  EXPECT_EQ(text(BytesOfTensor(&tensor, {1, 1, 0})), "0-24 dense");
  tensor = with_strides({3}, {4});
  EXPECT_EQ(text(BytesOfTensor(&tensor, {1, 1, 1})), "4-40");
  tensor = with_strides({1000}, {0});
  EXPECT_EQ(text(BytesOfTensor(&tensor, {1, 1, 1})), "4-8");
  // Whatever a damaged file has.
  for (const Value& odd : {with_strides({INT64_MAX, 3}, {INT64_MAX, 3}), with_strides({2}, {-1}),
                           with_strides({std::nullopt}, {1}), with_strides({2, 2}, {1}), TensorValue({-5})}) {
    EXPECT_EQ(text(BytesOfTensor(&odd, {1, 1, 0})), all);
  }
  tensor = TensorValue({2});
  EXPECT_EQ(text(BytesOfTensor(&tensor, {1, 1, INT64_MAX})), all);
  tensor = TensorValue({0, 4});
  EXPECT_EQ(text(BytesOfTensor(&tensor, {1, 1, 9})), "0-0 dense");
}

}  // namespace
}  // namespace torchtrace
