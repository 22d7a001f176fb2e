#include "serialize/numbers/tensor_comparison.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "serialize/numbers/tensor_numbers.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

std::string FloatBytes(const std::vector<float>& elements) {
  std::string bytes(elements.size() * sizeof(float), '\0');
  if (!elements.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

std::string Bfloat16Bytes(const std::vector<float>& elements) {
  std::string bytes;
  for (const float element : elements) {
    const uint32_t bits = std::bit_cast<uint32_t>(element) + 0x8000;
    bytes.push_back(static_cast<char>(bits >> 16));
    bytes.push_back(static_cast<char>(bits >> 24));
  }
  return bytes;
}

Value Tensor(int64_t size, const std::string& dtype = "float32") {
  Value value = TensorValue({size});
  value.text = dtype;
  return value;
}

// A tensor of a trace, with its elements or only with their numbers.
struct Recorded {
  Recorded(const std::vector<float>& elements, const std::string& dtype, bool with_elements)
      : bytes(dtype == "bfloat16" ? Bfloat16Bytes(elements) : FloatBytes(elements)),
        value(Tensor(static_cast<int64_t>(elements.size()), dtype)) {
    note.contents = bytes;
    if (with_elements) return;
    note.numbers = NumbersOfNote(note, &value);
    note.contents.reset();
  }
  std::string bytes;
  Value value;
  TensorNote note;
};

TensorComparison CompareRecorded(const std::vector<float>& a, const std::vector<float>& b, bool with_elements,
                                 const std::string& b_dtype = "float32", const ToleranceOptions& options = {}) {
  const Recorded x(a, "float32", with_elements), y(b, b_dtype, with_elements);
  return CompareTensors(x.note, &x.value, y.note, &y.value, options);
}

TEST(TensorComparison, OfFloats) {
  for (const bool elements : {true, false}) {
    EXPECT_EQ(CompareRecorded({1, 2, -3}, {1, 2, -3}, elements).likeness, Likeness::kEqual);
    EXPECT_EQ(CompareRecorded({1, 2, -3}, {1, 2, -3.000001f}, elements).likeness, Likeness::kClose);
    const TensorComparison different = CompareRecorded({1, 2, -4}, {1, 2, -3}, elements);
    EXPECT_EQ(different.likeness, Likeness::kDifferent);
    EXPECT_DOUBLE_EQ(different.relative, 0.25);
    EXPECT_EQ(different.elements_apart, elements ? 1u : 0u);
    EXPECT_EQ(different.elements, elements ? 3u : 0u);
  }
}

TEST(TensorComparison, NanAndInfinity) {
  const auto inf = std::numeric_limits<float>::infinity();
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool elements : {true, false}) {
    EXPECT_EQ(CompareRecorded({1, nan, -inf}, {1, nan, -inf}, elements).likeness, Likeness::kEqual);
    EXPECT_EQ(CompareRecorded({1, nan, -inf}, {1.000001f, nan, -inf}, elements).likeness, Likeness::kClose);
    for (const std::vector<float>& other : {std::vector<float>{1, 2, -inf}, {1, nan, inf}, {nan, nan, -inf}}) {
      const TensorComparison comparison = CompareRecorded({1, nan, -inf}, other, elements);
      EXPECT_EQ(comparison.likeness, Likeness::kDifferent);
      EXPECT_TRUE(std::isinf(comparison.relative));
    }
  }
}

// The numbers of a permutation are the same, its elements aren't.
TEST(TensorComparison, OfAnotherOrder) {
  EXPECT_EQ(CompareRecorded({1, 2, 3}, {3, 2, 1}, true).likeness, Likeness::kDifferent);
  EXPECT_EQ(CompareRecorded({1, 2, 3}, {3, 2, 1}, false).likeness, Likeness::kClose);
  // Without tolerances the bits count.
  const ToleranceOptions exact = {.relative = 0, .absolute = 0};
  EXPECT_EQ(CompareRecorded({1, 2, 3}, {3, 2, 1}, false, "float32", exact).likeness, Likeness::kDifferent);
}

TEST(TensorComparison, GivenTolerances) {
  for (const bool elements : {true, false}) {
    const auto likeness = [&](const ToleranceOptions& options) {
      return CompareRecorded({100, -100}, {101, -101}, elements, "float32", options).likeness;
    };
    EXPECT_EQ(likeness({}), Likeness::kDifferent);
    EXPECT_EQ(likeness({.relative = 0.02}), Likeness::kClose);
    EXPECT_EQ(likeness({.absolute = 1.5}), Likeness::kClose);
    EXPECT_EQ(likeness({.relative = 1e-3, .absolute = 0.5}), Likeness::kDifferent);
  }
}

TEST(TensorComparison, OverDtypes) {
  for (const bool elements : {true, false}) {
    const TensorComparison close = CompareRecorded({1.001f, 2, 30}, {1.001f, 2, 30}, elements, "bfloat16");
    EXPECT_EQ(close.likeness, Likeness::kClose);
    EXPECT_TRUE(close.other_dtypes);
    EXPECT_EQ(CompareRecorded({1, 2, 30}, {1, 2, 40}, elements, "bfloat16").likeness, Likeness::kDifferent);
    // What cancels to nearly zero has the precision of what it was computed from.
    EXPECT_EQ(CompareRecorded({0.001f, 2, 30}, {0.002f, 2, 30}, elements, "bfloat16").likeness, Likeness::kClose);
  }
}

TEST(TensorComparison, OfIntegersIsExact) {
  const auto compare = [](int64_t a, int64_t b, const std::string& b_dtype) {
    TensorNote::Numbers x = {.finite = 1,
                             .least = static_cast<double>(a),
                             .most = static_cast<double>(a),
                             .mean = static_cast<double>(a),
                             .norm = static_cast<double>(a),
                             .fingerprint = 1};
    TensorNote::Numbers y = {.finite = 1,
                             .least = static_cast<double>(b),
                             .most = static_cast<double>(b),
                             .mean = static_cast<double>(b),
                             .norm = static_cast<double>(b),
                             .fingerprint = 2};
    const Value x_tensor = Tensor(1, "int64"), y_tensor = Tensor(1, b_dtype);
    return CompareTensors({.numbers = x}, &x_tensor, {.numbers = y}, &y_tensor, {.relative = 0.5, .absolute = 10})
        .likeness;
  };
  EXPECT_EQ(compare(7, 8, "int64"), Likeness::kDifferent);
  EXPECT_EQ(compare(7, 8, "int32"), Likeness::kDifferent);
  EXPECT_EQ(compare(7, 7, "int32"), Likeness::kClose);
  // Beyond what a double holds, the fingerprints alone differ.
  EXPECT_EQ(compare(7, 7, "int64"), Likeness::kDifferent);
}

TEST(TensorComparison, Unknown) {
  const Recorded one({1, 2}, "float32", false);
  const TensorNote none;
  EXPECT_EQ(CompareTensors(one.note, &one.value, none, &one.value).likeness, Likeness::kUnknown);
  const TensorComparison shapes = CompareRecorded({1, 2}, {1, 2, 3}, false);
  EXPECT_EQ(shapes.likeness, Likeness::kUnknown);
  EXPECT_TRUE(shapes.other_shapes);
  // Numbers are compared where tensors aren't described.
  const Recorded other({1, 3}, "float32", false);
  EXPECT_EQ(CompareTensors(one.note, nullptr, other.note, nullptr).likeness, Likeness::kDifferent);
}

// A sum that is beyond a double's range has no mean.
TEST(TensorComparison, Overflow) {
  TensorNote::Numbers a = {
      .finite = 2, .least = -1e308, .most = 1e308, .mean = std::numeric_limits<double>::quiet_NaN(), .fingerprint = 1};
  a.norm = std::numeric_limits<double>::infinity();
  TensorNote::Numbers b = a;
  b.fingerprint = 2;
  const Value tensor = Tensor(2, "float64");
  EXPECT_EQ(CompareTensors({.numbers = a}, &tensor, {.numbers = b}, &tensor).likeness, Likeness::kClose);
  b.most = 2;
  EXPECT_EQ(CompareTensors({.numbers = a}, &tensor, {.numbers = b}, &tensor).likeness, Likeness::kDifferent);
}

TEST(Tolerances, ByDtype) {
  EXPECT_EQ(TolerancesOf("float32", "float32"), (Tolerances{1.3e-6, 1e-5}));
  EXPECT_EQ(TolerancesOf("float32", "bfloat16"), (Tolerances{1.6e-2, 1e-5}));
  EXPECT_EQ(TolerancesOf("float64", "float64"), (Tolerances{1e-7, 1e-7}));
  EXPECT_EQ(TolerancesOf("complex64", "complex64"), TolerancesOf("float32", "float32"));
  EXPECT_EQ(TolerancesOf("float64", "int64"), TolerancesOf("float64", "float64"));
  EXPECT_EQ(TolerancesOf("int64", "bool", {.relative = 1, .absolute = 1, .least = {1, 1}}), Tolerances());
  EXPECT_EQ(TolerancesOf("quint8", "quint8"), Tolerances());
  EXPECT_GT(TolerancesOf("float8_e5m2", "float8_e5m2").relative, TolerancesOf("float8_e4m3fn", "float32").relative);
  EXPECT_EQ(TolerancesOf("float32", "float32", {.least = {1e-3, 0}}), (Tolerances{1e-3, 1e-5}));
}

}  // namespace
}  // namespace torchtrace
