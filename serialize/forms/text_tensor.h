// Tensors and arrays of the text form (docs/TEXT.md), each spelling behind its opening
// parenthesis. They hold no other values. Values are new ones, and unspecified after an
// error. Callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_FORMS_TEXT_TENSOR_H_
#define TORCHTRACE_SERIALIZE_FORMS_TEXT_TENSOR_H_

#include "absl/status/status.h"
#include "serialize/forms/text_scanner.h"
#include "serialize/model/value_tree.h"

namespace torchtrace {

// Tensor([2, 3], "float32", device="cuda:0", stride=[1, 2])
absl::Status ReadTensorCall(TextScanner* scanner, Value* value);

// TorchBench's T([2, 3], f32, stride=(1, 2)) and BackendBench's T([2, 3], f32, [1, 2])
absl::Status ReadShortTensor(TextScanner* scanner, Value* value);

// TorchBench's ST(size, dtype, layout, is_coalesced, nnz=4)
absl::Status ReadShortSparseTensor(TextScanner* scanner, Value* value);

// ndarray([2, 3], "float32")
absl::Status ReadNdarrayCall(TextScanner* scanner, Value* value);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_TEXT_TENSOR_H_
