// The dialect of PyTorch, as the runtime library knows it: without torch. What
// faces torch is a module of its own, torchtrace_torch.so beside the runtime,
// loaded when the traced program has imported torch.

#ifndef TORCHTRACE_DIALECTS_TORCH_TORCH_DIALECT_H_
#define TORCHTRACE_DIALECTS_TORCH_TORCH_DIALECT_H_

namespace torchtrace {

// Registers the dialect "torch".
void RegisterTorchDialect();

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_TORCH_TORCH_DIALECT_H_
