// The elements of a tensor with any strides, in row-major order.

#ifndef TORCHTRACE_DIALECTS_TORCH_NUMBERS_ROW_MAJOR_H_
#define TORCHTRACE_DIALECTS_TORCH_NUMBERS_ROW_MAJOR_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "dialects/torch/numbers/sums.h"

namespace torchtrace::torch_dialect {

// Gives `kernel` the elements, `elements` by the sizes, block by block: where they are if they are contiguous, else
// copied.
void AddElements(BlockKernel kernel, const std::byte* data, uint64_t elements, size_t element_size,
                 std::span<const int64_t> sizes, std::span<const int64_t> strides, Sums* sums);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_NUMBERS_ROW_MAJOR_H_
