#include "serialize/numbers/tensor_numbers.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

std::string_view Bytes(const std::vector<float>& elements) {
  return {reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(float)};
}

TEST(TensorNumbers, OfContents) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> elements = {nan, inf, -inf, -inf, 0, 3};
  const Value tensor = TensorValue({2, 3});
  const auto numbers = NumbersOfNote({.contents = Bytes(elements)}, &tensor);
  ASSERT_TRUE(numbers.has_value());
  EXPECT_EQ(numbers->nans, 1u);
  EXPECT_EQ(numbers->positive_infinities, 1u);
  EXPECT_EQ(numbers->negative_infinities, 2u);
  EXPECT_EQ(InfinitiesOf(*numbers), 3u);
  EXPECT_EQ(numbers->zeros, 1u);
  EXPECT_EQ(numbers->finite, 2u);
  EXPECT_EQ(numbers->least, 0);
  EXPECT_EQ(numbers->most, 3);
  EXPECT_EQ(numbers->mean, 1.5);
  EXPECT_EQ(numbers->norm, 3);
  // Another shape is another fingerprint.
  const Value other = TensorValue({3, 2});
  EXPECT_NE(NumbersOfNote({.contents = Bytes(elements)}, &other)->fingerprint, numbers->fingerprint);
}

TEST(TensorNumbers, RecordedNumbersComeFirst) {
  const std::vector<float> elements = {1};
  const Value tensor = TensorValue({1});
  const TensorNote note = {.contents = Bytes(elements), .numbers = TensorNote::Numbers{.nans = 7}};
  EXPECT_EQ(NumbersOfNote(note, &tensor)->nans, 7u);
  EXPECT_EQ(NumbersOfNote(note, nullptr)->nans, 7u);
}

TEST(TensorNumbers, NoneWithoutAllElements) {
  const std::vector<float> elements = {1, 2};
  const Value two = TensorValue({2});
  EXPECT_FALSE(NumbersOfNote({}, &two).has_value());
  EXPECT_FALSE(NumbersOfNote({.contents = Bytes(elements)}, nullptr).has_value());
  for (const std::vector<Dim>& shape : std::vector<std::vector<Dim>>{
           {3}, {}, {-2}, {std::nullopt}, {0}, {int64_t{1} << 62, 4, 2}, {int64_t{1} << 32, int64_t{1} << 32, 2}}) {
    const Value tensor = TensorValue(shape);
    EXPECT_FALSE(NumbersOfNote({.contents = Bytes(elements)}, &tensor).has_value());
  }
  Value unknown = TensorValue({2});
  unknown.text = "quint8";
  EXPECT_FALSE(NumbersOfNote({.contents = Bytes(elements)}, &unknown).has_value());
  unknown = TensorValue({2});
  unknown.tensor_bits = kTensorShapeUnknown;
  EXPECT_FALSE(NumbersOfNote({.contents = Bytes(elements)}, &unknown).has_value());
}

TEST(TensorNumbers, OfNoElements) {
  for (const std::vector<Dim>& shape :
       std::vector<std::vector<Dim>>{{0}, {int64_t{1} << 40, 0, int64_t{1} << 40}, {0, int64_t{1} << 62}}) {
    const Value tensor = TensorValue(shape);
    const auto numbers = NumbersOfNote({.contents = std::string_view("")}, &tensor);
    ASSERT_TRUE(numbers.has_value());
    EXPECT_EQ(numbers->finite, 0u);
    EXPECT_EQ(numbers->least, 0);
  }
}

TEST(TensorNumbers, TensorsByPosition) {
  const Config config = MakeConfig(2, "aten::cat", {ItemsValue(ValueTag::kList, {TensorValue({1}), TensorValue({2})})},
                                   {{"out", TensorValue({3})}, {"dim", IntValue(0)}});
  const std::vector<const Value*> tensors = TensorsOf(config);
  ASSERT_EQ(tensors.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(tensors[i]->shape[0], static_cast<int64_t>(i + 1));
}

}  // namespace
}  // namespace torchtrace
