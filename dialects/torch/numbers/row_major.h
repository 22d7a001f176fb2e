// The elements of a tensor with any strides, in row-major order.

#ifndef TORCHTRACE_DIALECTS_TORCH_NUMBERS_ROW_MAJOR_H_
#define TORCHTRACE_DIALECTS_TORCH_NUMBERS_ROW_MAJOR_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "dialects/torch/numbers/element_type.h"

namespace torchtrace::torch_dialect {

// The elements of a tensor in memory.
struct StridedElements {
  const std::byte* first;
  size_t element_size;  // a power of two, at most 16
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;  // in elements
  FlippedSigns flipped = {};
  size_t part_size = element_size;  // PartSize

  uint64_t Count() const;
};

// Gives `take` the elements, kBlockBytes (sums.h) at a time: where they are if they are contiguous, else copied, with
// their signs flipped.
using TakeBlock = absl::FunctionRef<void(const std::byte* elements, size_t count)>;
void ForEachBlock(const StridedElements& elements, TakeBlock take);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_NUMBERS_ROW_MAJOR_H_
