// What the host and the kernel (numbers_kernel.cu) share.

#ifndef TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_NUMBERS_KERNEL_H_
#define TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_NUMBERS_KERNEL_H_

#include <cstddef>
#include <cstdint>

namespace torchtrace::torch_dialect {

// The text of numbers_kernel.cu.
extern const char kNumbersKernelSource[];
inline constexpr char kNumbersKernelName[] = "torchtrace_numbers";

inline constexpr uint32_t kMostKernelDimensions = 25;
inline constexpr uint32_t kMostKernelThreads = 256;  // of a block
inline constexpr uint32_t kMostKernelBlocks = 512;
inline constexpr uint32_t kKernelUnitBytes = 16;

// CRITICAL: the kernel has the same structures.
struct KernelPartial {
  uint64_t nans, positive_infinities, negative_infinities, zeros, words;
  double least, most;
  double sum, sum_rest;
  double squares, squares_rest;
  uint64_t ticket;
};
static_assert(sizeof(KernelPartial) == 96);

// Where the kernel finds a tensor, and writes: addresses of the device.
struct KernelArguments {
  uint64_t data;
  uint64_t partials;
  uint64_t result;
  uint64_t blocks_done;
  uint64_t elements;
  uint64_t ticket;
  uint32_t type;
  uint32_t dimensions;
  uint32_t aligned;
  uint32_t flipped;
  int64_t sizes[kMostKernelDimensions];
  int64_t strides[kMostKernelDimensions];
};
static_assert(sizeof(KernelArguments) == 64 + 2 * 8 * kMostKernelDimensions);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_NUMBERS_KERNEL_H_
