#include "serialize/model/torch_names.h"

#include <algorithm>
#include <cstddef>

namespace torchtrace {

std::vector<Dim> StridesOf(const Value& tensor) {
  if (!tensor.strides.empty() || (tensor.tensor_bits & kTensorHasLayout) != 0) return tensor.strides;
  std::vector<Dim> strides(tensor.shape.size());
  int64_t next = 1;
  for (size_t i = strides.size(); i-- > 0;) {
    strides[i] = next;
    const int64_t size = std::max<int64_t>(tensor.shape[i].value_or(1), 1);
    if (__builtin_mul_overflow(next, size, &next)) next = 0;
  }
  return strides;
}

}  // namespace torchtrace
