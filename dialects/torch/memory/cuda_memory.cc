#include "dialects/torch/memory/cuda_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <typeinfo>

#include "absl/strings/str_cat.h"
#include "dialects/torch/common/virtual_functions.h"
#include "dialects/torch/memory/noted_memory.h"
#include "nlohmann/json.hpp"

namespace torchtrace::torch_dialect {
namespace {

constexpr char kLibrary[] = "libc10_cuda.so";
// c10::cuda::CUDACachingAllocator::allocator, c10::cuda::device_count().
constexpr char kAllocator[] = "_ZN3c104cuda20CUDACachingAllocator9allocatorE";
constexpr char kDeviceCount[] = "_ZN3c104cuda12device_countEv";
constexpr std::string_view kCaching = "N3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocatorE";

// Where functions are in the caching allocator's table of virtual functions.
struct AllocatorLayout {
  const char* versions;  // of torch
  size_t init, initialized, device_stats, attach_tracker;
};
constexpr AllocatorLayout kLayouts[] = {
    {"2.7", 9, 10, 19, 35}, {"2.8", 9, 10, 19, 38}, {"2.9", 15, 6, 9, 39},  {"2.10-2.11", 16, 6, 9, 44},
    {"2.12", 16, 6, 9, 46}, {"2.13", 16, 6, 9, 48}, {"2.14", 16, 6, 9, 50},
};

// What a tracker gets, in all versions.
struct TraceEntryHead {
  int action;
  int8_t device;
  uint64_t address;
  const void* context[2];
  const void* stream;
  uint64_t bytes;  // as asked for
};
constexpr int kAllocated = 0;
// A block may be freed before other streams are done with it: then it is still taken, and its bytes count as requested.
constexpr int kFreeCompleted = 2;
using Tracker = std::function<void(const TraceEntryHead& entry)>;

// As a later version may have more members at its end.
struct LargeStats {
  c10::CachingDeviceAllocator::DeviceStats stats;
  char more[1024];
};

using Init = void (*)(void* allocator, int devices);
using Initialized = bool (*)(void* allocator);
using AttachTracker = void (*)(void* allocator, Tracker tracker);
using DeviceStatsOf = LargeStats (*)(void* allocator, c10::DeviceIndex device);

// A forked process has no CUDA devices, and another thread may have held the allocator's locks.
std::atomic<bool> g_forked{false};
// The caching allocator is never deleted, and what is attached stays.
std::atomic<bool> g_watches{false};
std::atomic<bool> g_is_attached{false};
void* g_caching = nullptr;
const AllocatorLayout* g_layout = nullptr;
Init g_init = nullptr;

void** TableOf(void* object) { return *static_cast<void***>(object); }

// Called with the allocator's lock held, and perhaps with the GIL.
void Track(const TraceEntryHead& entry) {
  if (!g_watches.load(std::memory_order_acquire)) return;
  if (entry.action != kAllocated && entry.action != kFreeCompleted) return;
  if (entry.device < 0 || entry.bytes == 0) return;
  const MemoryDevice device = {MemoryKind::kCuda, static_cast<uint32_t>(entry.device)};
  NoteMemory({entry.action == kFreeCompleted, device, entry.address, entry.bytes});
}

void Attach(void* allocator) {
  if (g_is_attached.exchange(true)) return;
  reinterpret_cast<AttachTracker>(TableOf(allocator)[g_layout->attach_tracker])(allocator, Track);
}

// An allocator has no devices, and forgets trackers, before it is initialised.
void InitAndAttach(void* allocator, int devices) {
  g_init(allocator, devices);
  Attach(allocator);
}

// The program's allocator now; null: there is none.
void* Current() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  const auto* const allocator =
      library == nullptr ? nullptr : static_cast<std::atomic<void*>*>(dlsym(library, kAllocator));
  return allocator == nullptr ? nullptr : allocator->load(std::memory_order_acquire);
}

absl::Status OtherAllocator(const std::string& which) {
  return absl::UnimplementedError(absl::StrCat("memory on CUDA devices: ", which));
}

absl::Status CheckIsCaching(void* allocator) {
  // Null: it was compiled with -fno-rtti.
  const auto* const info = reinterpret_cast<const std::type_info* const*>(TableOf(allocator))[-1];
  const std::string_view type = info == nullptr ? "" : info->name();
  if (type == kCaching) return absl::OkStatus();
  return OtherAllocator(type.find("CudaMallocAsync") != std::string_view::npos
                            ? "the allocator is cudaMallocAsync, not PyTorch's caching one"
                            : "the program has an allocator of its own");
}

// `take(stats, &json)` for each device with memory, by its number.
template <typename Take>
std::string OfDevices(const Take& take) {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  using DeviceCount = c10::DeviceIndex (*)();
  const auto count = library == nullptr ? nullptr : reinterpret_cast<DeviceCount>(dlsym(library, kDeviceCount));
  if (g_forked || !g_is_attached || count == nullptr) return "";
  const auto stats_of = reinterpret_cast<DeviceStatsOf>(TableOf(g_caching)[g_layout->device_stats]);
  nlohmann::json devices = nlohmann::json::object();
  for (c10::DeviceIndex i = 0; i < count(); ++i) {
    const LargeStats large = stats_of(g_caching, i);
    nlohmann::json json = take(large.stats);
    if (!json.empty()) devices[std::to_string(i)] = std::move(json);
  }
  return devices.empty() ? "" : nlohmann::json{{"cuda_memory", std::move(devices)}}.dump();
}

}  // namespace

absl::Status WatchCudaMemory(const MinorVersion& torch) {
  static const int forks = pthread_atfork(nullptr, nullptr, [] { g_forked = true; });
  static_cast<void>(forks);
  void* const allocator = Current();
  if (g_forked || allocator == nullptr) return absl::OkStatus();
  if (absl::Status status = CheckIsCaching(allocator); !status.ok()) return status;
  const auto* const layout = std::find_if(std::begin(kLayouts), std::end(kLayouts),
                                          [&torch](const auto& each) { return IsAmong(each.versions, torch); });
  if (layout == std::end(kLayouts)) return OtherAllocator("that of this version of PyTorch is unknown");
  if (getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) {
    return OtherAllocator("PYTORCH_NO_CUDA_MEMORY_CACHING is set");
  }
  g_caching = allocator;
  g_layout = layout;
  if (!g_is_attached) {
    void** const table = TableOf(allocator);
    if (reinterpret_cast<Initialized>(table[layout->initialized])(allocator)) {
      Attach(allocator);
    } else if (g_init == nullptr) {
      g_init = reinterpret_cast<Init>(table[layout->init]);
      if (!StoreInTable(&table[layout->init], reinterpret_cast<void*>(InitAndAttach),
                        !IsWritable(&table[layout->init]))) {
        g_init = nullptr;
        return OtherAllocator("its table of functions can't be written");
      }
    }
  }
  g_watches = true;
  return absl::OkStatus();
}

absl::Status UnwatchCudaMemory() {
  if (!g_watches.exchange(false)) return absl::OkStatus();
  void* const allocator = Current();
  return allocator == nullptr || allocator == g_caching ? absl::OkStatus() : CheckIsCaching(allocator);
}

std::string CudaMemoryBefore() {
  return OfDevices([](const auto& stats) {
    const int64_t bytes = stats.requested_bytes[0].current;
    return bytes > 0 ? nlohmann::json{{"before", bytes}} : nlohmann::json::object();
  });
}

std::string CudaMemoryPeaks() {
  return OfDevices([](const auto& stats) {
    const int64_t requested = stats.requested_bytes[0].peak, allocated = stats.allocated_bytes[0].peak;
    return requested > 0 ? nlohmann::json{{"requested_peak", requested}, {"allocated_peak", allocated}}
                         : nlohmann::json::object();
  });
}

}  // namespace torchtrace::torch_dialect
