// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "dialects/python/describe/int_digits.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace torchtrace {
namespace {

constexpr size_t kLimbs = kMaxIntBits / 32;
using Limbs = std::array<uint32_t, kLimbs>;  // the least first

// Of an int of at most kMaxIntBits.
Limbs Magnitude(PyObject* number, bool negative) {
  unsigned char bytes[kMaxIntBits / 8 + 1];  // and a sign
  auto* const value = reinterpret_cast<PyLongObject*>(number);
#if PY_VERSION_HEX >= 0x030D0000
  _PyLong_AsByteArray(value, bytes, sizeof bytes, /*little_endian=*/1, /*is_signed=*/1, /*with_exceptions=*/0);
#else
  _PyLong_AsByteArray(value, bytes, sizeof bytes, /*little_endian=*/1, /*is_signed=*/1);
#endif
  Limbs limbs;
  std::memcpy(limbs.data(), bytes, sizeof limbs);
  if (!negative) return limbs;
  uint64_t carry = 1;
  for (uint32_t& limb : limbs) {
    carry += static_cast<uint32_t>(~limb);
    limb = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  return limbs;
}

}  // namespace

std::string IntDigits(PyObject* number) {
  const bool negative = _PyLong_Sign(number) < 0;
  const auto bits = static_cast<size_t>(_PyLong_NumBits(number));
  if (bits > kMaxIntBits) return (negative ? "-" : "") + std::to_string(bits) + " bits";

  Limbs limbs = Magnitude(number, negative);
  size_t used = (bits + 31) / 32;
  std::string digits;  // the least first
  do {
    constexpr uint32_t kBase = 1'000'000'000;
    constexpr int kBaseDigits = 9;
    uint64_t rest = 0;
    for (size_t i = used; i-- > 0;) {
      rest = rest << 32 | limbs[i];
      limbs[i] = static_cast<uint32_t>(rest / kBase);
      rest %= kBase;
    }
    while (used > 0 && limbs[used - 1] == 0) --used;
    for (int i = 0; i < kBaseDigits && (used > 0 || rest > 0); ++i, rest /= 10) {
      digits.push_back(static_cast<char>('0' + rest % 10));
    }
  } while (used > 0);
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace torchtrace
