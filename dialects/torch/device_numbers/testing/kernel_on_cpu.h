// The kernel, compiled as C++: each thread of a block is a fiber, which stops where threads wait for each other.

#ifndef TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_TESTING_KERNEL_ON_CPU_H_
#define TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_TESTING_KERNEL_ON_CPU_H_

#include <cstdint>

#include "dialects/torch/device_numbers/numbers_kernel.h"

namespace torchtrace::torch_dialect {

// Its addresses are the process's. One at a time.
void RunKernelOnCpu(const KernelArguments& arguments, uint32_t blocks, uint32_t threads);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_TESTING_KERNEL_ON_CPU_H_
