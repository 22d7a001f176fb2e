// Where the elements of a tensor are, asked without calling anything of the program.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_TENSOR_ELEMENTS_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_TENSOR_ELEMENTS_H_

#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <optional>

#include "dialects/torch/numbers/element_type.h"

namespace torchtrace::torch_dialect {

// The fields behind TensorImpl's accessors that may call Python: a derived class may name a protected member, and a
// pointer to it serves any tensor. So may all of a tensor's accessors without `_default` in their names; those with it
// throw if sizes are symbolic.
struct PassiveFields : c10::TensorImpl {
  static int64_t StorageOffsetOf(const c10::TensorImpl& tensor) { return tensor.*(&PassiveFields::storage_offset_); }
  static const std::optional<c10::Device>& DeviceOf(const c10::TensorImpl& tensor) {
    return tensor.*(&PassiveFields::device_opt_);
  }
};

// What one tensor's memory holds.
struct TensorElements {
  // The first element; null if there is none, or they are not in memory of that device that can be read as it is (but
  // for signs), or the sizes are unknown.
  const char* first = nullptr;
  const char* end = nullptr;  // behind the last one in memory
  bool empty = false;         // there are no elements, and the sizes are known
  FlippedSigns flipped = {};
};
TensorElements ElementsOf(const c10::TensorImpl& impl, c10::DeviceType device = c10::kCPU);

// Whether all memory from the first element to the last is there, and is at most so much. Without touching it: the
// program may never read it, and reading that of a truncated file, or behind a dangling pointer, would end it.
bool IsReadable(const TensorElements& elements, int64_t most_bytes);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_TENSOR_ELEMENTS_H_
