// The memory of CUDA devices: PyTorch's caching allocator, which reports each block to trackers. It is in a library of
// its own, libc10_cuda.so, which only CUDA builds load. It is found in the process: nothing of CUDA is needed to build.

#ifndef TORCHTRACE_DIALECTS_TORCH_MEMORY_CUDA_MEMORY_H_
#define TORCHTRACE_DIALECTS_TORCH_MEMORY_CUDA_MEMORY_H_

#include <string>

#include "absl/status/status.h"
#include "serialize/base/version_spans.h"

namespace torchtrace::torch_dialect {

// From now on CUDA memory is recorded, as soon as the program has initialised CUDA. Does nothing in a process without
// the library. An error is a sentence on what is not recorded.
absl::Status WatchCudaMemory(const MinorVersion& torch);
// No more. An error as above: since when is unknown.
absl::Status UnwatchCudaMemory();

// What the watched allocator counts, as metadata (docs/FORMAT.md): the bytes that live now as those from before the
// trace, or the most there have been. Empty: nothing.
std::string CudaMemoryBefore();
std::string CudaMemoryPeaks();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_MEMORY_CUDA_MEMORY_H_
