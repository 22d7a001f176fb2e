// The numbers of a tensor, computed in one pass over its memory: how many elements are NaN, infinite and zero, the
// extremes, mean and L2 norm of the others, and a fingerprint.

#ifndef TORCHTRACE_DIALECTS_TORCH_NUMBERS_NUMBERS_H_
#define TORCHTRACE_DIALECTS_TORCH_NUMBERS_NUMBERS_H_

#include <cstdint>
#include <limits>
#include <span>

#include "dialects/torch/numbers/element_type.h"

namespace torchtrace::torch_dialect {

// A complex element counts as NaN if one of its parts is NaN, else as positive infinity if one is infinite, and
// otherwise as its magnitude, which is infinite beyond double's range. A bool that isn't 0 counts as 1.
struct Numbers {
  uint64_t elements = 0;
  uint64_t nans = 0;
  uint64_t positive_infinities = 0;
  uint64_t negative_infinities = 0;
  uint64_t zeros = 0;  // -0.0 too

  // Of the finite elements, in double; all four are NaN if there are none. Zeros are never negative here.
  //
  // least, most: exact, but for integers beyond 2^53, which are rounded to the nearest double, and for magnitudes,
  // which are within 1 ulp.
  // mean, norm: the sums are added up in a fixed order (sums.h), the same for all strides and processors, so equal
  // tensors have bit-equal ones. The sums of absolute values and of squares have relative errors below 1e-13, for any
  // number of elements. Where a sum of float64 or complex128 is beyond double's range, mean is infinite or NaN, norm is
  // infinite; squares below the range are 0 or lose bits.
  double least = std::numeric_limits<double>::quiet_NaN();
  double most = std::numeric_limits<double>::quiet_NaN();
  double mean = std::numeric_limits<double>::quiet_NaN();
  double norm = std::numeric_limits<double>::quiet_NaN();

  uint64_t fingerprint = 0;  // fingerprint.h

  uint64_t finite() const { return elements - nans - positive_infinities - negative_infinities; }
};

// `data`: the first element, aligned or not. `strides`: as many as `sizes`, in elements, of any value (0 where a tensor
// is expanded). The product of the sizes must fit into int64_t. Without dimensions there is one element. `flipped`:
// none for types without a sign bit.
//
// Depends on dtype, sizes and elements, not on strides. Allocates nothing, throws nothing, reads nothing but elements,
// and leaves the program's floating-point environment as it is. If another thread writes the elements meanwhile, the
// numbers may be of no state that the tensor ever had. Needs 8 KB of stack.
//
// Elements that are contiguous in row-major order are read where they are, by AVX2 if the processor has it; others, and
// those with flipped signs, are copied first, 4 KB at a time. Large transposed matrices are copied through 1 MB of
// static memory (row_major.cc).
Numbers NumbersOf(ElementType type, const void* data, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                  FlippedSigns flipped = {}) noexcept;

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_NUMBERS_NUMBERS_H_
