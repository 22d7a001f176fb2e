// What is added up over the elements of a tensor, block by block, until its numbers are made of it.
//
// The order is fixed, so that every processor gets the same sums. A tensor is cut into blocks of 4096 bytes, in
// row-major order. In a block, element i belongs to lane i modulo SumLanes(type), each lane adds up in order, and
// AddLanes adds up the lanes. The sums of blocks are added up in order, with compensation. Elements that aren't finite
// add nothing. The sums of 8-bit integers and bools in a block are exact, so their order doesn't matter.

#ifndef TORCHTRACE_DIALECTS_TORCH_NUMBERS_SUMS_H_
#define TORCHTRACE_DIALECTS_TORCH_NUMBERS_SUMS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "dialects/torch/numbers/element_type.h"
#include "dialects/torch/numbers/numbers.h"

namespace torchtrace::torch_dialect {

inline constexpr size_t kBlockBytes = 4096;

// As many as elements, but at most 8, fit into 32 bytes; 4 for complex elements.
constexpr size_t SumLanes(ElementType type) {
  return ElementSize(type) >= 8 || type == ElementType::kComplex32 ? 4 : 8;
}

// Consecutive halves are added until one number is left.
inline double AddLanes(double* lanes, size_t count) {
  for (; count > 1; count /= 2) {
    for (size_t i = 0; i < count / 2; ++i) lanes[i] += lanes[i + count / 2];
  }
  return lanes[0];
}

// Neumaier's sum: what an addition rounds off is kept and added at the end.
class CompensatedSum {
 public:
  CompensatedSum() = default;
  CompensatedSum(double sum, double rounded_off) : sum_(sum), rounded_off_(rounded_off) {}

  void Add(double value) {
    const double sum = sum_ + value;
    const double larger = std::fabs(sum_) >= std::fabs(value) ? sum_ : value;
    const double smaller = std::fabs(sum_) >= std::fabs(value) ? value : sum_;
    rounded_off_ += (larger - sum) + smaller;
    sum_ = sum;
  }
  double Total() const { return std::isfinite(sum_) ? sum_ + rounded_off_ : sum_; }

 private:
  double sum_ = 0;
  double rounded_off_ = 0;
};

struct Sums {
  uint64_t nans = 0;
  uint64_t positive_infinities = 0;
  uint64_t negative_infinities = 0;
  uint64_t zeros = 0;
  double least = std::numeric_limits<double>::infinity();  // of the finite elements, as `most`
  double most = -std::numeric_limits<double>::infinity();
  CompensatedSum sum;
  CompensatedSum squares;
  uint64_t words = 0;  // the sum of MixWord (fingerprint.h)
};

// `shape_seed`: of the fingerprint (fingerprint.h).
Numbers FinishNumbers(uint64_t elements, uint64_t shape_seed, const Sums& sums);

// Adds `elements` contiguous elements, at most a block. `first_word`: the index of their first word for the
// fingerprint. Only the last block of a tensor may end within a word.
using BlockKernel = void (*)(const std::byte* data, size_t elements, uint64_t first_word, Sums* sums);

BlockKernel ScalarKernel(ElementType type);
// Null: the processor can't run it (AVX2 and F16C; AVX-512 F and DQ), or it knows no such elements.
BlockKernel Avx2Kernel(ElementType type);
BlockKernel Avx512Kernel(ElementType type);
BlockKernel FastestKernel(ElementType type);

// NumbersOf with this kernel.
Numbers NumbersBy(BlockKernel kernel, ElementType type, const void* data, std::span<const int64_t> sizes,
                  std::span<const int64_t> strides, FlippedSigns flipped = {}) noexcept;

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_NUMBERS_SUMS_H_
