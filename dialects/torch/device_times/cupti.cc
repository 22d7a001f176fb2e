#include "dialects/torch/device_times/cupti.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace torchtrace::torch_dialect {
namespace {

// Where members are in the records.
constexpr size_t kBytesAt = 8;
constexpr size_t kStartAt = 16;
constexpr size_t kEndAt = 24;
struct WorkLayout {
  DeviceWork::Kind kind;
  size_t device_at, stream_at, correlation_at, name_at;  // name_at: 0 if there is none
};
constexpr WorkLayout kKernelLayout = {DeviceWork::kKernel, 40, 48, 92, 104};
constexpr WorkLayout kMemcpyLayout = {DeviceWork::kCopy, 32, 40, 44, 0};
constexpr WorkLayout kMemsetLayout = {DeviceWork::kMemset, 32, 40, 44, 0};
// Between two devices: of the one that copies.
constexpr WorkLayout kPeerLayout = {DeviceWork::kCopy, 32, 40, 60, 0};
constexpr size_t kExternalKindAt = 4;
constexpr size_t kExternalIdAt = 8;
constexpr size_t kExternalCorrelationAt = 16;
// Of a call of the runtime or the driver.
constexpr size_t kLaunchStartAt = 8;
constexpr size_t kLaunchEndAt = 16;
constexpr size_t kLaunchCorrelationAt = 32;
// Of a copy: the direction, one byte.
constexpr size_t kCopyKindAt = 4;
constexpr const char* kCopyNames[] = {nullptr,       "Memcpy HtoD", "Memcpy DtoH", "Memcpy HtoA",
                                      "Memcpy AtoH", "Memcpy AtoA", "Memcpy AtoD", "Memcpy DtoA",
                                      "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP"};

template <typename T>
T At(const void* record, size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(record) + offset, sizeof value);
  return value;
}

CuptiRecord ReadWork(const void* record, const WorkLayout& layout) {
  CuptiRecord read;
  const auto device = At<uint32_t>(record, layout.device_at);
  const auto start = At<uint64_t>(record, kStartAt), end = At<uint64_t>(record, kEndAt);
  if (device >= DeviceWork::kMostDevices) return read;
  read.kind = CuptiRecord::kWork;
  read.correlation = At<uint32_t>(record, layout.correlation_at);
  read.ended = start != 0 && end >= start;
  read.work.kind = layout.kind;
  read.work.device = static_cast<uint8_t>(device);
  read.work.stream = At<uint32_t>(record, layout.stream_at);
  read.work.start_ns = static_cast<int64_t>(start);
  read.work.duration_ns = read.ended ? static_cast<int64_t>(end - start) : 0;
  read.work.correlation = read.correlation;
  if (layout.kind != DeviceWork::kKernel) read.work.bytes = At<uint64_t>(record, kBytesAt);
  if (layout.kind == DeviceWork::kCopy) {
    const auto direction = At<uint8_t>(record, kCopyKindAt);
    if (direction < std::size(kCopyNames)) read.name = kCopyNames[direction];
  } else {
    read.name = layout.name_at != 0 ? At<const char*>(record, layout.name_at) : "Memset";
  }
  return read;
}

int FindCuptiPath(dl_phdr_info* info, size_t, void* path) {
  if (info->dlpi_name == nullptr || std::strstr(info->dlpi_name, "libcupti.so") == nullptr) return 0;
  *static_cast<std::string*>(path) = info->dlpi_name;
  return 1;
}

template <typename Function>
void FindFunction(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
}

constexpr uint16_t kRuntimeFunctions[] = {
    13,  31,  32,  33,  34,  35,  36,  37,  38,  39,  40,  41,  42,  43,  44,  45,  46,  47,  48,  49,
    50,  51,  52,  142, 143, 144, 145, 160, 161, 162, 163, 211, 213, 214, 215, 216, 217, 218, 219, 220,
    221, 222, 223, 224, 225, 226, 227, 228, 229, 230, 231, 232, 233, 234, 235, 236, 243, 244, 245, 246,
    249, 250, 269, 270, 272, 311, 312, 430, 431, 482, 483, 484, 485, 509, 510, 511, 512};
constexpr uint16_t kDriverFunctions[] = {
    43,  45,  47,  49,  51,  53,  54,  55,  56,  57,  58,  60,  62,  64,  66,  67,  68,  69,  71,  73,  75,  77,
    79,  81,  115, 116, 117, 216, 218, 220, 222, 224, 226, 249, 250, 251, 252, 253, 254, 276, 277, 278, 279, 280,
    281, 282, 283, 284, 285, 286, 287, 288, 289, 290, 291, 292, 293, 305, 306, 307, 318, 319, 320, 321, 397, 398,
    399, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 418, 419, 420, 421,
    422, 423, 424, 425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 477, 478, 480, 514, 515, 652, 653};

}  // namespace

absl::StatusOr<Cupti> Cupti::Find() {
  std::string path;
  dl_iterate_phdr(&FindCuptiPath, &path);
  if (path.empty()) return absl::NotFoundError("this torch has loaded no CUPTI, as builds without CUDA don't");
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return absl::NotFoundError(absl::StrCat(path, " can't be opened"));
  Cupti cupti;
  std::string missing;
#define TORCHTRACE_FIND(function, parameters)        \
  FindFunction(library, #function, &cupti.function); \
  if (cupti.function == nullptr) missing = #function;
  TORCHTRACE_CUPTI_FUNCTIONS(TORCHTRACE_FIND)
#undef TORCHTRACE_FIND
  if (!missing.empty()) return absl::NotFoundError(absl::StrCat(path, " has no ", missing));
  FindFunction(library, "cuptiActivityEnableRuntimeApi", &cupti.cuptiActivityEnableRuntimeApi);
  FindFunction(library, "cuptiActivityEnableDriverApi", &cupti.cuptiActivityEnableDriverApi);
  uint32_t version = 0;
  if (cupti.cuptiGetVersion(&version) != kCuptiSuccess || version < kOldestCupti) {
    return absl::NotFoundError(absl::StrCat(path, " is older than that of CUDA 11.8"));
  }
  return cupti;
}

std::span<const uint16_t> LaunchingRuntimeFunctions() { return kRuntimeFunctions; }
std::span<const uint16_t> LaunchingDriverFunctions() { return kDriverFunctions; }

CuptiRecord ReadCuptiRecord(const void* record) {
  switch (At<int>(record, 0)) {
    case kCuptiConcurrentKernel:
      return ReadWork(record, kKernelLayout);
    case kCuptiMemcpy:
      return ReadWork(record, kMemcpyLayout);
    case kCuptiMemset:
      return ReadWork(record, kMemsetLayout);
    case kCuptiMemcpyPeer:
      return ReadWork(record, kPeerLayout);
    case kCuptiExternalCorrelation: {
      CuptiRecord read;
      read.kind = CuptiRecord::kExternalId;
      read.external_kind = At<int>(record, kExternalKindAt);
      read.external_id = At<uint64_t>(record, kExternalIdAt);
      read.correlation = At<uint32_t>(record, kExternalCorrelationAt);
      return read;
    }
    case kCuptiRuntime:
    case kCuptiDriver: {
      CuptiRecord read;
      const auto start = At<uint64_t>(record, kLaunchStartAt), end = At<uint64_t>(record, kLaunchEndAt);
      if (start == 0 || end < start) return read;
      read.kind = CuptiRecord::kLaunch;
      read.correlation = At<uint32_t>(record, kLaunchCorrelationAt);
      read.launch_start_ns = static_cast<int64_t>(start);
      read.launch_ns = static_cast<int64_t>(end - start);
      return read;
    }
    default:
      return {};
  }
}

}  // namespace torchtrace::torch_dialect
