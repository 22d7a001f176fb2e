#include "dialects/torch/device_numbers/testing/kernel_on_cpu.h"

#include <ucontext.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace torchtrace::torch_dialect {
namespace {

struct MemoryPlace {
  unsigned x = 0;
};
MemoryPlace gridDim, blockDim, blockIdx, threadIdx;

// Runs functions in turn, each up to its next Yield.
class Fibers {
 public:
  void Run(unsigned count, const std::function<void()>& body) {
    body_ = &body;
    fibers_.resize(count);
    stacks_.resize(count * kStackBytes);
    for (unsigned i = 0; i < count; ++i) {
      Fiber& fiber = fibers_[i];
      fiber.over = false;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = &stacks_[i * kStackBytes];
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = &main_;
      makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Begin), 0);
    }
    for (bool some = true; some;) {
      some = false;
      for (unsigned i = 0; i < count; ++i) {
        if (fibers_[i].over) continue;
        some = true;
        threadIdx.x = i;
        swapcontext(&main_, &fibers_[i].context);
      }
    }
  }
  void Yield() { swapcontext(&fibers_[threadIdx.x].context, &main_); }

  static Fibers& Get() {
    static Fibers fibers;
    return fibers;
  }

 private:
  static constexpr size_t kStackBytes = 32 << 10;
  struct Fiber {
    ucontext_t context;
    bool over = false;
  };

  static void Begin() {
    (*Get().body_)();
    Get().fibers_[threadIdx.x].over = true;
  }

  const std::function<void()>* body_ = nullptr;
  ucontext_t main_;
  std::vector<Fiber> fibers_;
  std::vector<char> stacks_;
};

// What NVRTC has of its own.
void __syncthreads() { Fibers::Get().Yield(); }
void __threadfence() {}
unsigned atomicAdd(unsigned* number, unsigned more) {
  const unsigned before = *number;
  *number += more;
  return before;
}
double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }
float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
using std::fabs;
using std::fmax;
using std::fmin;
using std::sqrt;

namespace kernel {
#define __device__
#define __global__
#define __shared__ static
#define __noinline__
#define __launch_bounds__(threads)
#include "dialects/torch/device_numbers/testing/numbers_kernel_text.h"
#undef __device__
#undef __global__
#undef __shared__
#undef __noinline__
#undef __launch_bounds__
static_assert(sizeof(Arguments) == sizeof(KernelArguments) && sizeof(Partial) == sizeof(KernelPartial));
static_assert(offsetof(Arguments, type) == offsetof(KernelArguments, type));
static_assert(offsetof(Arguments, strides) == offsetof(KernelArguments, strides));
static_assert(offsetof(Partial, ticket) == offsetof(KernelPartial, ticket));
static_assert(kMostThreads == kMostKernelThreads && kMostDimensions == kMostKernelDimensions);
}  // namespace kernel

}  // namespace

void RunKernelOnCpu(const KernelArguments& arguments, uint32_t blocks, uint32_t threads) {
  kernel::Arguments own;
  std::memcpy(&own, &arguments, sizeof own);
  gridDim.x = blocks;
  blockDim.x = threads;
  // Blocks end in any order.
  for (uint32_t i = 0; i < blocks; ++i) {
    blockIdx.x = i % 2 == 0 ? i : blocks - i - (blocks % 2 == 0 ? 0 : 1);
    Fibers::Get().Run(threads, [&own] { kernel::torchtrace_numbers(own); });
  }
}

}  // namespace torchtrace::torch_dialect
