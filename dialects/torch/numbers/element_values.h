// One element's bytes as a number.

#ifndef TORCHTRACE_DIALECTS_TORCH_NUMBERS_ELEMENT_VALUES_H_
#define TORCHTRACE_DIALECTS_TORCH_NUMBERS_ELEMENT_VALUES_H_

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "dialects/torch/numbers/element_type.h"

namespace torchtrace::torch_dialect {

// By their bits.
using Float8Table = std::array<float, 256>;

// The formats of float8 with a sign. `fn`: without infinities. `uz`: without negative zero, whose bits are the NaN.
constexpr Float8Table MakeFloat8Table(int mantissa_bits, int bias, bool fn, bool uz) {
  Float8Table table = {};
  const int exponent_mask = (1 << (7 - mantissa_bits)) - 1;
  const int mantissa_mask = (1 << mantissa_bits) - 1;
  for (int bits = 0; bits < 256; ++bits) {
    const int exponent = (bits >> mantissa_bits) & exponent_mask;
    const int mantissa = bits & mantissa_mask;
    float value = static_cast<float>(exponent == 0 ? mantissa : mantissa + mantissa_mask + 1);
    int power = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
    for (; power > 0; --power) value *= 2;
    for (; power < 0; ++power) value /= 2;
    if (!uz && exponent == exponent_mask) {
      if (!fn) {
        value = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
      } else if (mantissa == mantissa_mask) {
        value = std::numeric_limits<float>::quiet_NaN();
      }
    }
    if (uz && bits == 0x80) value = std::numeric_limits<float>::quiet_NaN();
    table[bits] = bits & 0x80 ? -value : value;
  }
  return table;
}

// An exponent alone.
constexpr Float8Table MakeE8m0Table() {
  Float8Table table = {};
  for (uint32_t bits = 1; bits < 255; ++bits) table[bits] = std::bit_cast<float>(bits << 23);
  table[0] = std::bit_cast<float>(uint32_t{1} << 22);
  table[255] = std::numeric_limits<float>::quiet_NaN();
  return table;
}

inline constexpr Float8Table kE5m2Table = MakeFloat8Table(2, 15, false, false);
inline constexpr Float8Table kE4m3fnTable = MakeFloat8Table(3, 7, true, false);
inline constexpr Float8Table kE5m2fnuzTable = MakeFloat8Table(2, 16, true, true);
inline constexpr Float8Table kE4m3fnuzTable = MakeFloat8Table(3, 8, true, true);
inline constexpr Float8Table kE8m0fnuTable = MakeE8m0Table();

template <ElementType type>
constexpr const Float8Table& Float8TableOf() {
  if constexpr (type == ElementType::kFloat8E5m2) return kE5m2Table;
  if constexpr (type == ElementType::kFloat8E4m3fn) return kE4m3fnTable;
  if constexpr (type == ElementType::kFloat8E5m2fnuz) return kE5m2fnuzTable;
  if constexpr (type == ElementType::kFloat8E4m3fnuz) return kE4m3fnuzTable;
  if constexpr (type == ElementType::kFloat8E8m0fnu) return kE8m0fnuTable;
}

constexpr float Float16Value(uint16_t bits) {
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t mantissa = bits & 0x3ff;
  float value = 0;
  if (exponent == 0) {
    value = static_cast<float>(mantissa) * 0x1p-24f;
  } else {
    value = std::bit_cast<float>((exponent == 31 ? 0xff : exponent + 127 - 15) << 23 | mantissa << 13);
  }
  return bits & 0x8000 ? -value : value;
}

constexpr float Bfloat16Value(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// An element as it is counted: its value and the value's square.
struct ElementValue {
  double value;
  double square;
};

inline ElementValue RealValue(double value) { return {value, value * value}; }

// NaN if one part is; sqrt keeps NaN and infinity.
inline ElementValue ComplexValue(double real, double imaginary) {
  const double square = real * real + imaginary * imaginary;
  return {std::sqrt(square), square};
}

// The parts' squares may leave double's range where the magnitude doesn't.
inline ElementValue Complex128Value(double real, double imaginary) {
  const ElementValue plain = ComplexValue(real, imaginary);
  if (plain.square >= 0x1p-900 && plain.square <= 0x1p900) return plain;
  if (!std::isfinite(real) || !std::isfinite(imaginary)) {
    const bool nan = std::isnan(real) || std::isnan(imaginary);
    return RealValue(nan ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity());
  }
  const double scale = plain.square > 1 ? 0x1p-600 : 0x1p600;
  return {ComplexValue(real * scale, imaginary * scale).value / scale, plain.square};
}

template <typename T>
T LoadElement(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

template <ElementType type>
ElementValue ValueAt(const std::byte* data) {
  using enum ElementType;
  if constexpr (type == kUint8) return RealValue(LoadElement<uint8_t>(data));
  if constexpr (type == kInt8) return RealValue(LoadElement<int8_t>(data));
  if constexpr (type == kInt16) return RealValue(LoadElement<int16_t>(data));
  if constexpr (type == kInt32) return RealValue(LoadElement<int32_t>(data));
  if constexpr (type == kInt64) return RealValue(static_cast<double>(LoadElement<int64_t>(data)));
  if constexpr (type == kUint16) return RealValue(LoadElement<uint16_t>(data));
  if constexpr (type == kUint32) return RealValue(LoadElement<uint32_t>(data));
  if constexpr (type == kUint64) return RealValue(static_cast<double>(LoadElement<uint64_t>(data)));
  if constexpr (type == kBool) return RealValue(LoadElement<uint8_t>(data) != 0);
  if constexpr (type == kFloat16) return RealValue(Float16Value(LoadElement<uint16_t>(data)));
  if constexpr (type == kBfloat16) return RealValue(Bfloat16Value(LoadElement<uint16_t>(data)));
  if constexpr (type == kFloat32) return RealValue(LoadElement<float>(data));
  if constexpr (type == kFloat64) return RealValue(LoadElement<double>(data));
  if constexpr (type == kComplex32) {
    return ComplexValue(Float16Value(LoadElement<uint16_t>(data)), Float16Value(LoadElement<uint16_t>(data + 2)));
  }
  if constexpr (type == kComplex64) return ComplexValue(LoadElement<float>(data), LoadElement<float>(data + 4));
  if constexpr (type == kComplex128) return Complex128Value(LoadElement<double>(data), LoadElement<double>(data + 8));
  if constexpr (type == kFloat8E5m2 || type == kFloat8E4m3fn || type == kFloat8E5m2fnuz || type == kFloat8E4m3fnuz ||
                type == kFloat8E8m0fnu) {
    return RealValue(Float8TableOf<type>()[LoadElement<uint8_t>(data)]);
  }
}

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_NUMBERS_ELEMENT_VALUES_H_
