// The PyTorch dialect as the runtime library sees it: built without torch. The code that uses torch is a separate
// module next to the runtime, such as torchtrace_torch-2.13.so, which is loaded when the traced program has imported
// torch.

#ifndef TORCHTRACE_DIALECTS_TORCH_TORCH_DIALECT_H_
#define TORCHTRACE_DIALECTS_TORCH_TORCH_DIALECT_H_

namespace torchtrace {

// Registers the dialect "torch".
void RegisterTorchDialect();

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_TORCH_TORCH_DIALECT_H_
