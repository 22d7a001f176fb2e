#include "dialects/torch/numbers/numbers.h"

#include <cmath>

#include "dialects/torch/numbers/fingerprint.h"
#include "dialects/torch/numbers/row_major.h"
#include "dialects/torch/numbers/sums.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace torchtrace::torch_dialect {
namespace {

// While it lives, floating-point numbers are computed by the default rules: denormal numbers aren't zeros
// (torch.set_flush_denormal), rounding is to nearest, and no exception becomes a signal. Afterwards the program has its
// own rules back, and no flags of exceptions that weren't its own.
class DefaultFloatingPoint {
 public:
#if defined(__x86_64__)
  DefaultFloatingPoint() : control_(_mm_getcsr()) { _mm_setcsr(kDefaultControl); }
  ~DefaultFloatingPoint() { _mm_setcsr(control_); }

 private:
  static constexpr unsigned kDefaultControl = 0x1f80;
  const unsigned control_;
#elif defined(__aarch64__)
  DefaultFloatingPoint() {
    asm volatile("mrs %0, fpcr" : "=r"(control_));
    asm volatile("mrs %0, fpsr" : "=r"(status_));
    asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}));
  }
  ~DefaultFloatingPoint() {
    asm volatile("msr fpcr, %0" : : "r"(control_));
    asm volatile("msr fpsr, %0" : : "r"(status_));
  }

 private:
  uint64_t control_;
  uint64_t status_;
#endif
};

// Apart from its caller, who changes the rules of floating-point numbers: no computation may move across that.
__attribute__((noinline)) Numbers ComputeNumbers(BlockKernel kernel, ElementType type,
                                                 const StridedElements& elements) {
  Sums sums;
  uint64_t word = 0;
  if (kernel != nullptr) {
    ForEachBlock(elements, [&](const std::byte* block, size_t count) {
      kernel(block, count, word, &sums);
      word += kBlockBytes / sizeof(uint64_t);
    });
  }
  return FinishNumbers(elements.Count(), ShapeSeed(type, elements.sizes), sums);
}

}  // namespace

Numbers FinishNumbers(uint64_t elements, uint64_t shape_seed, const Sums& sums) {
  Numbers numbers;
  numbers.elements = elements;
  numbers.nans = sums.nans;
  numbers.positive_infinities = sums.positive_infinities;
  numbers.negative_infinities = sums.negative_infinities;
  numbers.zeros = sums.zeros;
  numbers.fingerprint = FinishFingerprint(sums.words, shape_seed);
  if (const uint64_t finite = numbers.finite(); finite != 0) {
    // -0.0 + 0.0 is 0.0.
    numbers.least = sums.least + 0.0;
    numbers.most = sums.most + 0.0;
    numbers.mean = sums.sum.Total() / static_cast<double>(finite) + 0.0;
    numbers.norm = std::sqrt(sums.squares.Total());
  }
  return numbers;
}

BlockKernel FastestKernel(ElementType type) {
  if (const BlockKernel kernel = Avx512Kernel(type)) return kernel;
  if (const BlockKernel kernel = Avx2Kernel(type)) return kernel;
  return ScalarKernel(type);
}

Numbers NumbersBy(BlockKernel kernel, ElementType type, const void* data, std::span<const int64_t> sizes,
                  std::span<const int64_t> strides, FlippedSigns flipped) noexcept {
  const DefaultFloatingPoint default_floating_point;
  return ComputeNumbers(
      kernel, type, {static_cast<const std::byte*>(data), ElementSize(type), sizes, strides, flipped, PartSize(type)});
}

Numbers NumbersOf(ElementType type, const void* data, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                  FlippedSigns flipped) noexcept {
  return NumbersBy(FastestKernel(type), type, data, sizes, strides, flipped);
}

}  // namespace torchtrace::torch_dialect
