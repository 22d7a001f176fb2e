// The types of elements whose numbers can be computed.

#ifndef TORCHTRACE_DIALECTS_TORCH_NUMBERS_ELEMENT_TYPE_H_
#define TORCHTRACE_DIALECTS_TORCH_NUMBERS_ELEMENT_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace torchtrace::torch_dialect {

// The numbers are those of c10::ScalarType. They are part of the fingerprint, so they never change.
enum class ElementType : uint8_t {
  kUint8 = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kFloat16 = 5,
  kFloat32 = 6,
  kFloat64 = 7,
  kComplex32 = 8,
  kComplex64 = 9,
  kComplex128 = 10,
  kBool = 11,
  kBfloat16 = 15,
  kFloat8E5m2 = 23,
  kFloat8E4m3fn = 24,
  kFloat8E5m2fnuz = 25,
  kFloat8E4m3fnuz = 26,
  kUint16 = 27,
  kUint32 = 28,
  kUint64 = 29,
  kFloat8E8m0fnu = 44,
};

// In bytes. 0 for a number that isn't in the enum.
constexpr size_t ElementSize(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
    case ElementType::kInt8:
    case ElementType::kBool:
    case ElementType::kFloat8E5m2:
    case ElementType::kFloat8E4m3fn:
    case ElementType::kFloat8E5m2fnuz:
    case ElementType::kFloat8E4m3fnuz:
    case ElementType::kFloat8E8m0fnu:
      return 1;
    case ElementType::kInt16:
    case ElementType::kUint16:
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
      return 2;
    case ElementType::kInt32:
    case ElementType::kUint32:
    case ElementType::kFloat32:
    case ElementType::kComplex32:
      return 4;
    case ElementType::kInt64:
    case ElementType::kUint64:
    case ElementType::kFloat64:
    case ElementType::kComplex64:
      return 8;
    case ElementType::kComplex128:
      return 16;
  }
  return 0;
}

// Of the real part of a complex element, which the imaginary part follows; of all of any other element.
constexpr size_t PartSize(ElementType type) {
  const bool is_complex =
      type == ElementType::kComplex32 || type == ElementType::kComplex64 || type == ElementType::kComplex128;
  return is_complex ? ElementSize(type) / 2 : ElementSize(type);
}

// Of a view whose elements have other signs than in memory: negative or conjugate.
struct FlippedSigns {
  bool real = false;       // of elements that are not complex, too
  bool imaginary = false;  // of complex elements

  bool any() const { return real || imaginary; }
  friend bool operator==(const FlippedSigns&, const FlippedSigns&) = default;
};

// The type of a c10::ScalarType's number; nothing for quantized, packed and unknown types.
constexpr std::optional<ElementType> ElementTypeOfNumber(int64_t number) {
  if (number < 0 || number > UINT8_MAX || ElementSize(static_cast<ElementType>(number)) == 0) return std::nullopt;
  return static_cast<ElementType>(number);
}

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_NUMBERS_ELEMENT_TYPE_H_
