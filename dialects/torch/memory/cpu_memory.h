// The memory of CPU tensors: PyTorch's own allocator, behind one that notes what passes through it.

#ifndef TORCHTRACE_DIALECTS_TORCH_MEMORY_CPU_MEMORY_H_
#define TORCHTRACE_DIALECTS_TORCH_MEMORY_CPU_MEMORY_H_

namespace torchtrace::torch_dialect {

// False: the program has an allocator of its own.
bool WatchCpuMemory();
// False: the program has replaced the allocator meanwhile. Blocks that were handed out are freed as before.
bool UnwatchCpuMemory();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_MEMORY_CPU_MEMORY_H_
