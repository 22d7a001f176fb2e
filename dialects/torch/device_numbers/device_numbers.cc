#include "dialects/torch/device_numbers/device_numbers.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dialects/torch/numbers/fingerprint.h"
#include "dialects/torch/numbers/sums.h"

namespace torchtrace::torch_dialect {

const char kNumbersKernelSource[] =
#include "dialects/torch/device_numbers/numbers_kernel.inc"
    ;

namespace {

constexpr uint64_t kPartialsBytes = kMostKernelBlocks * sizeof(KernelPartial);
// A slot in the device's memory: partial sums of the blocks, the result, and the number of blocks that are done.
constexpr uint64_t kCounterBytes = 32;
constexpr uint64_t kSlotBytes = kPartialsBytes + sizeof(KernelPartial) + kCounterBytes;
// Tensors of more elements exist only as views that show some again and again.
constexpr uint64_t kMostElements = uint64_t{1} << 48;
constexpr uint32_t kLeastThreads = 32;
// How many units a thread reads before another block does.
constexpr uint64_t kUnitsOfAThread = 4;
// How often a slot is looked at before its event is asked, which costs more than a look.
constexpr uint32_t kLooksBeforeEvent = 256;
constexpr double kSecondsToTry = 30;
constexpr std::chrono::microseconds kPause{100};

std::atomic<uint64_t> g_forks{0};

void CountForks() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { g_forks.fetch_add(1, std::memory_order_relaxed); });
}

// Sizes and strides for the kernel: without dimensions of size 1, and neighbours that can be walked as one are one.
// False: too many are left.
bool SetDimensions(const DeviceTensor& tensor, KernelArguments* arguments) {
  const auto bytes = static_cast<int64_t>(ElementSize(tensor.type));
  uint32_t count = 0;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    const int64_t size = tensor.sizes[i];
    if (size == 1) continue;
    const int64_t stride = tensor.strides[i] * bytes;
    if (count != 0 && arguments->strides[count - 1] == stride * size) {
      arguments->sizes[count - 1] *= size;
      arguments->strides[count - 1] = stride;
      continue;
    }
    if (count == kMostKernelDimensions) return false;
    arguments->sizes[count] = size;
    arguments->strides[count] = stride;
    ++count;
  }
  const bool contiguous = count == 0 || (count == 1 && arguments->strides[0] == bytes);
  arguments->dimensions = contiguous ? 0 : count;
  arguments->flipped = uint32_t{tensor.flipped.real} | uint32_t{tensor.flipped.imaginary} << 1;
  const bool in_units = contiguous && arguments->flipped == 0 && tensor.data % kKernelUnitBytes == 0;
  arguments->aligned = in_units ? kKernelUnitBytes : tensor.data % PartSize(tensor.type) == 0 ? 0 : 1;
  return true;
}

struct Grid {
  uint32_t blocks;
  uint32_t threads;
};

// Depends on nothing but the tensor, so that sums do.
Grid GridFor(ElementType type, uint64_t elements) {
  const uint64_t per_unit = kKernelUnitBytes / ElementSize(type);
  const uint64_t units = (elements + per_unit - 1) / per_unit;
  Grid grid = {1, kLeastThreads};
  while (grid.threads < kMostKernelThreads && grid.threads < units) grid.threads *= 2;
  const uint64_t of_a_block = grid.threads * kUnitsOfAThread;
  grid.blocks =
      static_cast<uint32_t>(std::clamp<uint64_t>((units + of_a_block - 1) / of_a_block, 1, kMostKernelBlocks));
  return grid;
}

Numbers NumbersFrom(const KernelPartial& partial, uint64_t elements, uint64_t shape_seed) {
  return FinishNumbers(elements, shape_seed,
                       {.nans = partial.nans,
                        .positive_infinities = partial.positive_infinities,
                        .negative_infinities = partial.negative_infinities,
                        .zeros = partial.zeros,
                        .least = partial.least,
                        .most = partial.most,
                        .sum = CompensatedSum(partial.sum, partial.sum_rest),
                        .squares = CompensatedSum(partial.squares, partial.squares_rest),
                        .words = partial.words});
}

}  // namespace

// While it lives, the thread is in the device's context, and its calls are allowed while another thread captures a
// graph.
class DeviceNumbers::Inside {
 public:
  Inside(const CudaDriver& driver, CuHandle context) : driver_(driver) {
    exchanged_ = driver_.cuThreadExchangeStreamCaptureMode(&mode_) == kCuSuccess;
    pushed_ = driver_.cuCtxPushCurrent_v2(context) == kCuSuccess;
  }
  ~Inside() {
    CuHandle context;
    if (pushed_) static_cast<void>(driver_.cuCtxPopCurrent_v2(&context));
    if (exchanged_) static_cast<void>(driver_.cuThreadExchangeStreamCaptureMode(&mode_));
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  bool ok() const { return exchanged_ && pushed_; }

 private:
  const CudaDriver& driver_;
  int mode_ = kCuCaptureRelaxed;
  bool exchanged_ = false;
  bool pushed_ = false;
};

#define TORCHTRACE_CU(function, ...) \
  if (absl::Status s = driver_.Check(driver_.function(__VA_ARGS__), #function); !s.ok()) return s

DeviceNumbers::DeviceNumbers(Libraries libraries)
    : libraries_(std::move(libraries)), forks_((CountForks(), g_forks.load(std::memory_order_relaxed))) {}

DeviceNumbers::~DeviceNumbers() {
  if (forked()) return;
  for (auto& [number, device] : devices_) {
    if (device.context == nullptr) continue;
    const Inside inside(driver_, device.context);
    if (device.memory != 0) static_cast<void>(driver_.cuMemFree_v2(device.memory));
    if (device.results != nullptr) static_cast<void>(driver_.cuMemFreeHost(device.results));
    static_cast<void>(driver_.cuDevicePrimaryCtxRelease_v2(device.handle));
  }
}

bool DeviceNumbers::forked() const { return g_forks.load(std::memory_order_relaxed) != forks_; }

absl::Status DeviceNumbers::Load() {
  absl::StatusOr<CudaDriver> driver = CudaDriver::Load(libraries_.driver);
  if (!driver.ok()) return driver.status();
  driver_ = *driver;
  absl::StatusOr<Nvrtc> nvrtc = Nvrtc::Load(libraries_.nvrtc);
  if (!nvrtc.ok()) return nvrtc.status();
  nvrtc_ = *nvrtc;
  return absl::OkStatus();
}

absl::Status DeviceNumbers::Prepare(int device, void* stream) {
  if (forked()) return absl::FailedPreconditionError("CUDA can't be used in a forked process");
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [at, fresh] = devices_.try_emplace(device);
  if (!fresh) return at->second.status;
  if (!loaded_.has_value()) loaded_ = Load();
  const absl::Status status = loaded_->ok() ? PrepareDevice(device, stream, &at->second) : *loaded_;
  at->second.status = status;
  if (absl::IsUnavailable(status)) devices_.erase(at);
  return status;
}

absl::Status DeviceNumbers::PrepareDevice(int number, CuHandle stream, Device* device) {
  TORCHTRACE_CU(cuDeviceGet, &device->handle, number);
  unsigned flags = 0;
  int active = 0;
  TORCHTRACE_CU(cuDevicePrimaryCtxGetState, device->handle, &flags, &active);
  if (active == 0) return absl::FailedPreconditionError("the program doesn't use the device");
  TORCHTRACE_CU(cuDevicePrimaryCtxRetain, &device->context, device->handle);
  const Inside inside(driver_, device->context);
  if (!inside.ok()) return absl::InternalError("the device's context can't be entered");
  int capturing = kCuCaptureNone;
  const CuResult asked = driver_.cuStreamIsCapturing(stream, &capturing);
  if (asked == kCuCaptureImplicit || capturing != kCuCaptureNone) {
    static_cast<void>(driver_.cuDevicePrimaryCtxRelease_v2(device->handle));
    return absl::UnavailableError("a graph is being captured");
  }
  int major = 0, minor = 0;
  TORCHTRACE_CU(cuDeviceGetAttribute, &major, kCuCapabilityMajor, device->handle);
  TORCHTRACE_CU(cuDeviceGetAttribute, &minor, kCuCapabilityMinor, device->handle);
  std::string& kernel = kernels_[10 * major + minor];
  if (kernel.empty()) {
    absl::StatusOr<std::string> compiled =
        nvrtc_->Compile(kNumbersKernelSource, "numbers_kernel.cu", 10 * major + minor);
    if (!compiled.ok()) return compiled.status();
    kernel = *std::move(compiled);
  }
  CuHandle module = nullptr;
  TORCHTRACE_CU(cuModuleLoadData, &module, kernel.c_str());
  TORCHTRACE_CU(cuModuleGetFunction, &device->function, module, kNumbersKernelName);
  if (absl::Status s = Allocate(device); !s.ok()) return s;
  return Try(device);
}

absl::Status DeviceNumbers::Allocate(Device* device) const {
  TORCHTRACE_CU(cuMemAlloc_v2, &device->memory, kSlots * kSlotBytes);
  void* results = nullptr;
  TORCHTRACE_CU(cuMemHostAlloc, &results, kSlots * sizeof(KernelPartial), kCuHostPortable);
  std::memset(results, 0, kSlots * sizeof(KernelPartial));
  device->results = static_cast<KernelPartial*>(results);
  device->slots.resize(kSlots);
  for (size_t i = 0; i < kSlots; ++i) {
    device->slots[i].number = i;
    TORCHTRACE_CU(cuEventCreate, &device->slots[i].event, kCuEventWithoutTiming);
    device->free.push_back(kSlots - 1 - i);
  }
  device->under_way.reserve(kSlots);
  return absl::OkStatus();
}

// The first launch may load code, and a device may compute something else than expected.
absl::Status DeviceNumbers::Try(Device* device) {
  constexpr int64_t kElements = 10'000, kStride = 1;
  static const std::vector<uint16_t> zeros(kElements);
  const Numbers expected = NumbersOf(ElementType::kFloat16, zeros.data(), {&kElements, 1}, {&kStride, 1});
  CuHandle stream = nullptr;
  TORCHTRACE_CU(cuStreamCreate, &stream, kCuStreamNonBlocking);
  Slot slot = device->slots[0];
  const absl::Status launched = [&]() -> absl::Status {
    TORCHTRACE_CU(cuMemsetD8Async, device->memory, 0, kSlots * kSlotBytes, stream);
    const DeviceTensor tensor = {
        ElementType::kFloat16, device->memory + kSlotBytes, {&kElements, 1}, {&kStride, 1}, 0, stream};
    KernelArguments arguments = {};
    SetDimensions(tensor, &arguments);
    arguments.data = tensor.data;
    arguments.elements = kElements;
    arguments.type = static_cast<uint32_t>(tensor.type);
    slot.type = tensor.type;
    return LaunchIn(device, &slot, arguments, stream);
  }();
  absl::Status status = launched;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kSecondsToTry);
  while (status.ok()) {
    const CuResult result = driver_.cuEventQuery(slot.event);
    if (result == kCuSuccess) break;
    if (result != kCuNotReady) status = driver_.Check(result, "cuEventQuery");
    if (std::chrono::steady_clock::now() > end) status = absl::DeadlineExceededError("the device is busy");
    std::this_thread::sleep_for(kPause);
  }
  static_cast<void>(driver_.cuStreamDestroy_v2(stream));
  if (!status.ok()) return status;
  const KernelPartial result = device->results[0];
  const Numbers numbers = NumbersFrom(result, kElements, ShapeSeed(slot.type, {&kElements, 1}));
  if (result.ticket != slot.launch || numbers.zeros != expected.zeros || numbers.fingerprint != expected.fingerprint ||
      numbers.norm != 0) {
    return absl::InternalError("the device computes other numbers than the CPU");
  }
  return absl::OkStatus();
}

absl::Status DeviceNumbers::LaunchIn(Device* device, Slot* slot, const KernelArguments& arguments, CuHandle stream) {
  slot->launch = ++launches_;
  slot->stream = stream;
  slot->looks = 0;
  const CuAddress memory = device->memory + slot->number * kSlotBytes;
  KernelArguments own = arguments;
  own.partials = memory;
  own.result = memory + kPartialsBytes;
  own.blocks_done = own.result + sizeof(KernelPartial);
  own.ticket = slot->launch;
  void* parameters[] = {&own};
  const Grid grid = GridFor(slot->type, arguments.elements);
  TORCHTRACE_CU(cuLaunchKernel, device->function, grid.blocks, 1, 1, grid.threads, 1, 1, 0, stream, parameters,
                nullptr);
  TORCHTRACE_CU(cuMemcpyDtoHAsync_v2, &device->results[slot->number], own.result, sizeof(KernelPartial), stream);
  TORCHTRACE_CU(cuEventRecord, slot->event, stream);
  return absl::OkStatus();
}

Launched DeviceNumbers::Launch(const DeviceTensor& tensor, uint64_t ticket) {
  if (forked()) return Launched::kOff;
  uint64_t elements = 1;
  for (const int64_t size : tensor.sizes) {
    if (size < 0 || __builtin_mul_overflow(elements, static_cast<uint64_t>(size), &elements)) {
      return Launched::kUnsupported;
    }
  }
  KernelArguments arguments = {};
  if (elements >= kMostElements || ElementSize(tensor.type) == 0) return Launched::kUnsupported;
  if (elements != 0 && !SetDimensions(tensor, &arguments)) return Launched::kUnsupported;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = devices_.find(tensor.device);
  if (found == devices_.end() || !found->second.status.ok()) return Launched::kOff;
  Device* const device = &found->second;
  if (elements == 0) {
    done_.push_back({ticket, NumbersOf(tensor.type, nullptr, tensor.sizes, tensor.strides)});
    under_way_.fetch_add(1, std::memory_order_relaxed);
    return Launched::kYes;
  }
  const Inside inside(driver_, device->context);
  int capturing = kCuCaptureNone;
  const CuResult asked = inside.ok() ? driver_.cuStreamIsCapturing(tensor.stream, &capturing) : kCuSuccess;
  if (asked == kCuCaptureImplicit || capturing != kCuCaptureNone) return Launched::kCapturing;
  if (device->free.empty()) Collect(device, /*all=*/false);
  if (!device->status.ok()) return Launched::kOff;
  if (device->free.empty()) return Launched::kFull;
  Slot& slot = device->slots[device->free.back()];
  slot.ticket = ticket;
  slot.type = tensor.type;
  slot.elements = elements;
  slot.shape_seed = ShapeSeed(tensor.type, tensor.sizes);
  arguments.data = tensor.data;
  arguments.elements = elements;
  arguments.type = static_cast<uint32_t>(tensor.type);
  absl::Status status = inside.ok() ? driver_.Check(asked, "cuStreamIsCapturing")
                                    : absl::InternalError("the device's context can't be entered");
  if (status.ok()) status = LaunchIn(device, &slot, arguments, tensor.stream);
  if (!status.ok()) {
    device->status = status;
    Collect(device, /*all=*/true);
    return Launched::kOff;
  }
  device->free.pop_back();
  device->under_way.push_back(slot.number);
  under_way_.fetch_add(1, std::memory_order_relaxed);
  return Launched::kYes;
}

DeviceNumbers::State DeviceNumbers::StateOf(const Device& device, Slot* slot) const {
  const volatile uint64_t& written = device.results[slot->number].ticket;
  if (written != slot->launch && ++slot->looks % kLooksBeforeEvent != 0) return State::kWaits;
  const CuResult result = driver_.cuEventQuery(slot->event);
  if (result == kCuNotReady) return State::kWaits;
  if (result != kCuSuccess) return State::kFailed;
  std::atomic_thread_fence(std::memory_order_acquire);
  return written == slot->launch ? State::kArrived : State::kLost;
}

void DeviceNumbers::Finish(Device* device, const Slot& slot, bool arrived) {
  Done& done = done_.emplace_back();
  done.ticket = slot.ticket;
  if (arrived) done.numbers = NumbersFrom(device->results[slot.number], slot.elements, slot.shape_seed);
  // A slot whose work may still run isn't used again.
  device->free.push_back(slot.number);
}

void DeviceNumbers::Collect(Device* device, bool all) {
  if (device->under_way.empty()) return;
  const Inside inside(driver_, device->context);
  std::vector<CuHandle> blocked;  // streams whose next launch waits
  std::vector<size_t> waiting;
  for (const size_t number : device->under_way) {
    Slot& slot = device->slots[number];
    State state = State::kWaits;
    if (device->status.ok() && std::find(blocked.begin(), blocked.end(), slot.stream) == blocked.end()) {
      if (all) slot.looks = kLooksBeforeEvent - 1;
      state = StateOf(*device, &slot);
    }
    if (state == State::kFailed) {
      device->status = absl::InternalError("a launch failed: the program's kernels may have");
    }
    if (state == State::kWaits && !all && device->status.ok()) {
      blocked.push_back(slot.stream);
      waiting.push_back(number);
      continue;
    }
    Finish(device, slot, state == State::kArrived);
    if (state == State::kWaits || state == State::kFailed) device->free.pop_back();
  }
  device->under_way = std::move(waiting);
}

void DeviceNumbers::Show(std::unique_lock<std::mutex>* lock, Visit visit) {
  std::vector<Done> done;
  done.swap(done_);
  lock->unlock();
  under_way_.fetch_sub(done.size(), std::memory_order_relaxed);
  for (const Done& each : done) visit(each.ticket, each.numbers.has_value() ? &*each.numbers : nullptr);
}

void DeviceNumbers::Poll(Visit visit) {
  if (!waits() || forked()) return;
  // Another thread may prepare a device: that takes long.
  std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (auto& [number, device] : devices_) Collect(&device, /*all=*/false);
  Show(&lock, visit);
}

void DeviceNumbers::Drain(Visit visit, double seconds) {
  if (!waits() || forked()) return;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::unique_lock<std::mutex> lock(mutex_);
  for (auto& [number, device] : devices_) {
    while (!device.under_way.empty()) {
      const bool over = std::chrono::steady_clock::now() >= end;
      Collect(&device, over);
      if (!device.under_way.empty()) std::this_thread::sleep_for(kPause);
    }
  }
  Show(&lock, visit);
}

absl::Status DeviceNumbers::Failure(int device) {
  if (forked()) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = devices_.find(device);
  return found == devices_.end() ? absl::OkStatus() : found->second.status;
}

}  // namespace torchtrace::torch_dialect
