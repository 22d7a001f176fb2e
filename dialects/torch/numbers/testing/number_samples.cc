#include "dialects/torch/numbers/testing/number_samples.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "gtest/gtest.h"

namespace torchtrace::torch_dialect {

using enum ElementType;

std::vector<ElementType> AllTypes() {
  std::vector<ElementType> types;
  for (int64_t number = -1; number <= 300; ++number) {
    if (const auto type = ElementTypeOfNumber(number)) types.push_back(*type);
  }
  return types;
}

Format FormatOf(ElementType type) {
  switch (type) {
    case kFloat16:
    case kComplex32:
      return {5, 10, 15};
    case kBfloat16:
      return {8, 7, 127};
    case kFloat32:
    case kComplex64:
      return {8, 23, 127};
    case kFloat64:
    case kComplex128:
      return {11, 52, 1023};
    case kFloat8E5m2:
      return {5, 2, 15};
    case kFloat8E4m3fn:
      return {4, 3, 7, false};
    case kFloat8E5m2fnuz:
      return {5, 2, 16, false, false};
    case kFloat8E4m3fnuz:
      return {4, 3, 8, false, false};
    default:
      return {};
  }
}

Bytes ElementMaker::Make(size_t elements) {
  const size_t size = ElementSize(type_);
  Bytes data(elements * size);
  const size_t part = PartSize(type_);
  // Some tensors have nothing special.
  const bool special = random_() % 4 != 0;
  for (size_t at = 0; at < data.size(); at += part) {
    const uint64_t bits = special && random_() % 8 == 0 ? Special() : Plain();
    std::memcpy(data.data() + at, &bits, part);
  }
  return data;
}

uint64_t ElementMaker::Special() {
  const Format format = FormatOf(type_);
  const uint64_t sign =
      format.exponent_bits == 0 ? 0 : (random_() & 1) << (format.exponent_bits + format.mantissa_bits);
  const uint64_t infinity = ((uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
  const uint64_t mantissa = random_() & ((uint64_t{1} << format.mantissa_bits) - 1);
  switch (random_() % 4) {
    case 0:
      return sign;
    case 1:
      return sign | infinity;
    case 2:
      return sign | infinity | mantissa;
    default:
      return sign | mantissa;  // denormal
  }
}

uint64_t ElementMaker::Plain() {
  const uint64_t bits = random_();
  if (type_ != kFloat64 && type_ != kComplex128) return bits;
  const double value = std::ldexp(static_cast<double>(bits >> 11), static_cast<int>(random_() % 80) - 90);
  return std::bit_cast<uint64_t>(bits & 1 ? -value : value);
}

Bytes EveryPattern(ElementType type) {
  const size_t size = ElementSize(type);
  Bytes all;
  for (uint32_t bits = 0; bits < 1u << (8 * size); ++bits) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&bits);
    all.insert(all.end(), bytes, bytes + size);
  }
  return all;
}

std::vector<View> ViewSamples() {
  return {
      {{64, 64}, {1, 64}},                      // transposed
      {{257, 131}, {1, 257}},                   //
      {{100, 7}, {0, 1}},                       // expanded
      {{100, 70}, {1, 0}},                      //
      {{3, 5, 100}, {0, 0, 0}},                 //
      {{5000}, {3}},                            // sliced
      {{50, 40}, {1000, 1}, 13},                //
      {{50, 40}, {1000, 2}, 13},                //
      {{1001}, {1}, 3},                         //
      {{4, 3, 16, 17}, {816, 1, 51, 3}},        // channels last
      {{2, 1, 30, 1, 8}, {240, 99, 8, -5, 1}},  // contiguous: dimensions of 1 have any stride
      {{7, 2, 3, 2, 5, 3}, {1, 1000, 7, 21, 42, 210}},
      {{100}, {-1}, 99},
      {{10, 0, 7}, {1, 5, 3}},
      {{}, {}, 5},
      {Shape(16, 2), {32768, 3, 16384, 7, 1, 1, 2, 2, 0, 0, 5, 5, 5, 9, 9, 11}},
  };
}

void ExpectSameButSums(const Numbers& a, const Numbers& b) {
  EXPECT_EQ(a.elements, b.elements);
  EXPECT_EQ(a.nans, b.nans);
  EXPECT_EQ(a.positive_infinities, b.positive_infinities);
  EXPECT_EQ(a.negative_infinities, b.negative_infinities);
  EXPECT_EQ(a.zeros, b.zeros);
  EXPECT_EQ(std::bit_cast<uint64_t>(a.least), std::bit_cast<uint64_t>(b.least));
  EXPECT_EQ(std::bit_cast<uint64_t>(a.most), std::bit_cast<uint64_t>(b.most));
  EXPECT_EQ(a.fingerprint, b.fingerprint);
}

}  // namespace torchtrace::torch_dialect
