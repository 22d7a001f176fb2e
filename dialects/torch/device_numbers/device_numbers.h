// The numbers (dialects/torch/numbers) of tensors in the memory of CUDA devices, computed there without waiting: after
// a call one kernel on its stream reads the tensor, and the numbers are picked up at some later call.
//
//   DeviceNumbers numbers({"libcuda.so.1", NvrtcNames(torch)});
//   if (numbers.Prepare(0).ok()) numbers.Launch(tensor, 7);
//   ...
//   numbers.Poll([](uint64_t ticket, const Numbers* numbers) { ... });
//
// Same definitions as on the CPU: counts, extremes and the fingerprint are equal to the CPU's (magnitudes within 1
// ulp). The sums are added up in another order, so mean and norm are equal within rounding (relative errors below 1e-13
// of the sums of absolute values and of squares); equal tensors have bit-equal ones on every CUDA device.
//
// The program's CUDA state stays as it is: memory comes from the driver, not from PyTorch's allocator, nothing is
// synchronised, no error is taken from it, contexts are only those that it uses. Memory of a device that is used: 26 MB
// there, 50 KB of pinned memory, and NVRTC.

#ifndef TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_DEVICE_NUMBERS_H_
#define TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_DEVICE_NUMBERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "dialects/torch/device_numbers/cuda_libraries.h"
#include "dialects/torch/device_numbers/numbers_kernel.h"
#include "dialects/torch/numbers/numbers.h"

namespace torchtrace::torch_dialect {

// As NumbersOf takes it, at a device's address.
struct DeviceTensor {
  ElementType type;
  uint64_t data;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
  int device;    // PyTorch's number of it
  void* stream;  // a cudaStream_t of that device
  FlippedSigns flipped = {};
};

enum class Launched : uint8_t {
  kYes,
  kCapturing,    // the stream is being captured into a graph, which must not get more kernels
  kFull,         // too many numbers are under way: these are lost
  kUnsupported,  // too many dimensions or elements
  kOff,          // the device isn't prepared, or failed
};

// Any thread. A forked process can't use CUDA: there all is kOff, and nothing is waited for.
class DeviceNumbers {
 public:
  // How many numbers may be under way on a device. CUDA lets about 1000 operations of a stream wait, of which a call
  // and its numbers are four.
  static constexpr size_t kSlots = 512;

  struct Libraries {
    std::string driver;
    std::vector<std::string> nvrtc;  // in this order
  };
  // Loads nothing yet.
  explicit DeviceNumbers(Libraries libraries);
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;
  // Must not live when a launch is under way. The process's one is never destroyed: CUDA may end before it.
  ~DeviceNumbers();

  // Compiles and loads the kernel, and tries it, on a stream of its own: a second or two, once for each device, before
  // its first Launch. The program must use the device already. The same result
  // each time; Unavailable as long as `stream`, one of the device's, is captured into a graph.
  absl::Status Prepare(int device, void* stream = nullptr);

  // Has the tensor read after what is in the stream now. Empty tensors have their numbers at once.
  Launched Launch(const DeviceTensor& tensor, uint64_t ticket);

  // What has arrived, the oldest of each stream first; null: a launch whose numbers are lost. Doesn't wait.
  using Visit = absl::FunctionRef<void(uint64_t ticket, const Numbers* numbers)>;
  void Poll(Visit visit);
  // Waits for all that is under way; what has not arrived after `seconds` is lost.
  void Drain(Visit visit, double seconds);

  // Whether there may be something to poll.
  bool waits() const { return under_way_.load(std::memory_order_relaxed) != 0; }
  // Why a device that was prepared is kOff now; OK: it isn't.
  absl::Status Failure(int device);

 private:
  // What is known of a launch until its numbers are there.
  struct Slot {
    size_t number = 0;
    CuHandle event = nullptr;
    uint64_t launch = 0;  // which the kernel writes beside the numbers
    uint64_t ticket = 0;
    CuHandle stream = nullptr;
    ElementType type = {};
    uint64_t elements = 0;
    uint64_t shape_seed = 0;
    uint32_t looks = 0;
  };
  struct Done {
    uint64_t ticket;
    std::optional<Numbers> numbers;
  };
  struct Device {
    absl::Status status;  // of Prepare, or why it failed later
    CuHandle context = nullptr;
    CuDevice handle = 0;
    CuHandle function = nullptr;
    CuAddress memory = 0;
    KernelPartial* results = nullptr;  // by slot, in pinned memory
    std::vector<Slot> slots;
    std::vector<size_t> free;       // slots
    std::vector<size_t> under_way;  // in the order of the launches
  };
  class Inside;

  bool forked() const;
  absl::Status Load();
  absl::Status PrepareDevice(int number, CuHandle stream, Device* device);
  absl::Status Allocate(Device* device) const;
  absl::Status Try(Device* device);
  absl::Status LaunchIn(Device* device, Slot* slot, const KernelArguments& arguments, CuHandle stream);
  // Moves what has arrived to done_. `all`: what hasn't is lost.
  void Collect(Device* device, bool all);
  enum class State : uint8_t { kWaits, kArrived, kLost, kFailed };
  State StateOf(const Device& device, Slot* slot) const;
  void Finish(Device* device, const Slot& slot, bool arrived);
  void Show(std::unique_lock<std::mutex>* lock, Visit visit);

  const Libraries libraries_;
  const uint64_t forks_;              // when it was made
  std::atomic<size_t> under_way_{0};  // launches that were not visited
  std::mutex mutex_;
  std::optional<absl::Status> loaded_;
  CudaDriver driver_;
  std::optional<Nvrtc> nvrtc_;
  std::map<int, std::string> kernels_;  // by capability
  std::map<int, Device> devices_;
  std::vector<Done> done_;
  uint64_t launches_ = 0;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DEVICE_NUMBERS_DEVICE_NUMBERS_H_
