// Elements of all types, and views of them, for tests of what computes numbers.

#ifndef TORCHTRACE_DIALECTS_TORCH_NUMBERS_TESTING_NUMBER_SAMPLES_H_
#define TORCHTRACE_DIALECTS_TORCH_NUMBERS_TESTING_NUMBER_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "dialects/torch/numbers/element_type.h"
#include "dialects/torch/numbers/numbers.h"

namespace torchtrace::torch_dialect {

using Bytes = std::vector<std::byte>;
using Shape = std::vector<int64_t>;

std::vector<ElementType> AllTypes();

// A format of floating-point numbers, as its specification has it.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool infinities = true;
  bool negative_zero = true;  // else its bits are NaN, the only one
  bool sign = true;
};

Format FormatOf(ElementType type);

// Random elements of all kinds: NaN, infinities, zeros and denormal numbers are frequent.
class ElementMaker {
 public:
  explicit ElementMaker(ElementType type) : type_(type), random_(static_cast<unsigned>(type)) {}

  Bytes Make(size_t elements);

 private:
  uint64_t Special();
  // float64's squares stay within range.
  uint64_t Plain();

  const ElementType type_;
  std::mt19937_64 random_;
};

// Each element of a type of at most two bytes.
Bytes EveryPattern(ElementType type);

// Views of so many elements.
inline constexpr size_t kViewedElements = 70'000;
struct View {
  Shape sizes, strides;
  int64_t offset = 0;
};
std::vector<View> ViewSamples();

void ExpectSameButSums(const Numbers& a, const Numbers& b);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_NUMBERS_TESTING_NUMBER_SAMPLES_H_
