// The numbers of tensors on devices other than the CPU and CUDA (xpu, mps, PrivateUse1): of a copy on the CPU, for
// which the program's thread waits.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_COPIED_NUMBERS_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_COPIED_NUMBERS_H_

#include <c10/core/TensorImpl.h>

#include <optional>

#include "dialects/torch/numbers/element_type.h"
#include "serialize/model/tensor_notes.h"

namespace torchtrace::torch_dialect {

// Whether a copy of a tensor with a storage can be tried: not if one on its kind of device has failed before, nor of a
// lazy conjugate or negative, which not every device's copy computes.
bool CanBeCopied(const c10::TensorImpl& impl);

// `type`: of the tensor, whose sizes are known. One operator copies it, of which neither the program's modes, hooks and
// profilers nor ours see anything. If that raises, which is reported, there are no numbers of this kind of device.
std::optional<TensorNote::Numbers> NumbersOfCopy(const c10::TensorImpl& impl, ElementType type);

// Forgets what failed.
void BeginCopiedNumbers();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_COPIED_NUMBERS_H_
