// PyTorch's stack of function modes with level 1's mode on it, and the program's view of
// that stack, where it doesn't stand. Dynamo sees the program's view too: a mode that it knew of would
// change the graphs that it makes. What PyTorch's C++ asks is answered as it is.

#ifndef TORCHTRACE_DIALECTS_TORCH_MODE_STACK_H_
#define TORCHTRACE_DIALECTS_TORCH_MODE_STACK_H_

#include "absl/status/status.h"
#include "dialects/torch/function_mode.h"

namespace torchtrace::torch_dialect {

// Makes the functions of torch._C that look at the stack leave `mode` out, and
// takes it off the stack while Dynamo compiles. `mode` must live on.
absl::Status HideMode(const FunctionMode* mode);
// Puts the functions back.
void ShowMode();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_MODE_STACK_H_
