// A stand-in for libc10_cuda.so: a caching allocator whose table of virtual functions has functions of this file where
// torch's own header says so, and a CPU allocator as a program may have one. CUDA's headers are stand-ins too.

#include <c10/core/CPUAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <typeinfo>
#include <vector>

namespace c10::cuda {
namespace CUDACachingAllocator {

namespace Native {
struct NativeCachingAllocator {
  virtual ~NativeCachingAllocator() = default;
};
}  // namespace Native
namespace CudaMallocAsync {
struct CudaMallocAsyncAllocator {
  virtual ~CudaMallocAsyncAllocator() = default;
};
}  // namespace CudaMallocAsync

using c10::CachingDeviceAllocator::DeviceStats;
constexpr int kDevices = 2;

struct Table {
  intptr_t top = 0;
  const std::type_info* type = nullptr;
  void* functions[100];
};
Table g_table;
void** g_object = g_table.functions;

int g_devices = 0;
std::vector<AllocatorTraceTracker> g_trackers;
DeviceStats g_stats[kDevices];
std::map<size_t, size_t> g_blocks;

void Init(void*, int devices) { g_devices = devices; }
bool Initialized(void*) { return g_devices != 0; }
DeviceStats StatsOf(void*, c10::DeviceIndex device) { return g_stats[device]; }
void Attach(void*, AllocatorTraceTracker tracker) {
  if (g_devices != 0) g_trackers.push_back(std::move(tracker));
}

template <typename Function>
void Put(Function function, void* replacement) {
  uintptr_t offset;
  static_assert(sizeof function == 2 * sizeof offset);
  std::memcpy(&offset, &function, sizeof offset);
#if !defined(__aarch64__)
  --offset;
#endif
  g_table.functions[offset / sizeof(void*)] = replacement;
}

template <typename Entry>
void Tell(typename Entry::Action action, size_t address, size_t bytes) {
  const auto entry = [&] {
    if constexpr (requires { Entry(action, 1, address, bytes, nullptr, MempoolId_t(), 0); }) {
      return Entry(action, 1, address, bytes, nullptr, MempoolId_t(), 0);
    } else {
      return Entry(action, 1, address, bytes, nullptr, 0);
    }
  }();
  for (const AllocatorTraceTracker& tracker : g_trackers) tracker(entry);
}

std::atomic<CUDAAllocator*> allocator;

}  // namespace CUDACachingAllocator

DeviceIndex device_count() noexcept { return CUDACachingAllocator::kDevices; }

}  // namespace c10::cuda

using namespace c10::cuda::CUDACachingAllocator;

namespace {

class OwnCpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* const block = malloc(bytes);
    return {block, block, free, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return free; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

}  // namespace

// `asynchronous`: its class is that of cudaMallocAsync. `nameless`: as by -fno-rtti.
extern "C" void stand_in_begin(bool asynchronous, bool nameless) {
  for (void*& function : g_table.functions) function = reinterpret_cast<void*>(abort);
  g_table.type =
      asynchronous ? &typeid(CudaMallocAsync::CudaMallocAsyncAllocator) : &typeid(Native::NativeCachingAllocator);
  if (nameless) g_table.type = nullptr;
  Put(&CUDAAllocator::init, reinterpret_cast<void*>(Init));
  Put(&CUDAAllocator::initialized, reinterpret_cast<void*>(Initialized));
  Put(&CUDAAllocator::getDeviceStats, reinterpret_cast<void*>(StatsOf));
  Put(&CUDAAllocator::attachAllocatorTraceTracker, reinterpret_cast<void*>(Attach));
  allocator.store(reinterpret_cast<CUDAAllocator*>(&g_object));
}

extern "C" void stand_in_init() { allocator.load()->init(kDevices); }
extern "C" size_t stand_in_trackers() { return g_trackers.size(); }

// On device 1, in whole pieces of 512 bytes.
extern "C" size_t stand_in_allocate(size_t bytes) {
  static size_t next = 0x10000;
  const size_t address = next;
  const size_t rounded = (bytes + 511) / 512 * 512;
  next += rounded;
  g_blocks[address] = bytes;
  g_stats[1].requested_bytes[0].increase(bytes);
  g_stats[1].allocated_bytes[0].increase(rounded);
  Tell<TraceEntry>(TraceEntry::SEGMENT_ALLOC, address, 1 << 21);
  Tell<TraceEntry>(TraceEntry::ALLOC, address, bytes);
  return address;
}
extern "C" void stand_in_free(size_t address) {
  const size_t bytes = g_blocks.at(address);
  Tell<TraceEntry>(TraceEntry::FREE_REQUESTED, address, bytes);
  Tell<TraceEntry>(TraceEntry::FREE_COMPLETED, address, bytes);
  g_stats[1].requested_bytes[0].decrease(bytes);
  g_stats[1].allocated_bytes[0].decrease((bytes + 511) / 512 * 512);
}

extern "C" void stand_in_own_cpu_allocator() {
  static OwnCpuAllocator own;
  c10::SetCPUAllocator(&own, 1);
}
