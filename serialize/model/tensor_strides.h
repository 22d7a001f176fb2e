// Whether strides say more than the shape: torchtrace keeps those of tensors
// that are not contiguous, as torch.Tensor.is_contiguous() has it.

#ifndef TORCHTRACE_SERIALIZE_MODEL_TENSOR_STRIDES_H_
#define TORCHTRACE_SERIALIZE_MODEL_TENSOR_STRIDES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "serialize/model/value_tree.h"

namespace torchtrace {

// Of the same length. Dimensions of size 1 may have any stride, tensors without elements any strides.
inline bool IsContiguous(const std::vector<Dim>& shape, const std::vector<Dim>& strides) {
  for (const Dim& size : shape) {
    if (size == 0) return true;
  }
  uint64_t expected = 1;  // may wrap around, as no real tensor's does
  for (size_t i = shape.size(); i-- > 0;) {
    const uint64_t size = static_cast<uint64_t>(shape[i].value_or(0));
    if (size == 1) continue;
    if (static_cast<uint64_t>(strides[i].value_or(0)) != expected) return false;
    expected *= size;
  }
  return true;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_TENSOR_STRIDES_H_
