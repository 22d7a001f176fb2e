// The numbers of tensors, for notes on calls: which tensors have any at the moment, and which were read already.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_TENSOR_NUMBERS_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_TENSOR_NUMBERS_H_

#include <c10/core/TensorImpl.h>

#include <atomic>
#include <optional>

#include "dialects/torch/describe/device_notes.h"
#include "dialects/torch/describe/storage_state.h"
#include "serialize/model/config_builder.h"
#include "serialize/model/tensor_notes.h"

namespace torchtrace::torch_dialect {

// Whether an argument that was read is known as long as it isn't written: only if all writes are seen.
inline std::atomic<bool> g_reads_are_kept{false};
// Whether fused kernels may run. They write to results of operators, and no version tells.
inline std::atomic<bool> g_kernels_are_fused{false};

// The numbers of a tensor that is described as `elements`; nothing if it has none of its own:
//
// - memory that wasn't written since it was allocated. A storage counts as written as a whole.
// - views, and results that are arguments as they were.
// - what asynchronous work writes, until the next call takes it.
// - views that show more than 256 MiB by showing elements again and again, and more than 1 GiB of memory that PyTorch
//   didn't allocate (files).
// - meta, fake and functorch's tensors, symbolic sizes, negative views of integers.
//
// Of sparse and nested tensors those of their values; of quantized ones those of the integers. An argument, or a result
// of a call of unknown schema, is read only if exactly its elements (storage, memory, dtype, order, version) are not
// what was read last of its storage, or something was compiled. What writes without ATen (NumPy, Triton) to memory that
// PyTorch allocated is unseen.
//
// Those of CUDA tensors come later: `later` is for NoteLater (device_notes.h).
//
// `state`: of its storage; null: there is none. `arguments`: false leaves those out. As passive as NoteTensor.
struct FoundNumbers {
  std::optional<TensorNote::Numbers> now = {};
  LaterNumbers later = {};
};
FoundNumbers NumbersOfTensor(const c10::TensorImpl& impl, StorageState* state, Elements elements, bool arguments);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_TENSOR_NUMBERS_H_
