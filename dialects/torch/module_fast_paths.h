// Keeps the fast paths of torch.nn.MultiheadAttention and TransformerEncoder.
//
// These modules ask torch.overrides.has_torch_function(tensors) before they
// take a fused kernel, and any function mode makes it True: a traced program
// would compute something else. Asked from a file of torch.nn.modules, the
// question leaves our mode out.

#ifndef TORCHTRACE_DIALECTS_TORCH_MODULE_FAST_PATHS_H_
#define TORCHTRACE_DIALECTS_TORCH_MODULE_FAST_PATHS_H_

#include "absl/status/status.h"
#include "dialects/torch/function_mode.h"

namespace torchtrace::torch_dialect {

absl::Status KeepModuleFastPaths(const FunctionMode* mode);
void RestoreModuleFastPaths();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_MODULE_FAST_PATHS_H_
