#include "dialects/torch/describe/device_notes.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dialects/torch/describe/nan_stop.h"
#include "dialects/torch/numbers/fingerprint.h"
#include "dialects/torch/numbers/noted_numbers.h"
#include "tracer/record/recorder.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::torch_dialect {
namespace {

// What a kernel at the program's end may take.
constexpr double kSecondsToDrain = 60;
constexpr char kFull[] = "numbers of tensors on a GPU while too many were under way";
constexpr char kCaptured[] = "numbers of tensors on a GPU in calls that a CUDA graph captures";
constexpr char kUnsupported[] = "numbers of tensors on a GPU with too many dimensions or elements";
constexpr char kTooLate[] = "numbers of tensors on a GPU that came too late";
constexpr char kNoStream[] = "numbers of tensors on a GPU whose stream is unknown";
constexpr char kNotComputed[] = "numbers of tensors on a GPU that it did not compute";

// Of PyTorch's stable C interface (aoti_torch/c/shim.h): PyTorch alone knows which handle a stream has. Found without
// linking: its library is in the process if there is a CUDA tensor.
constexpr char kCudaLibrary[] = "libtorch_cuda.so";
constexpr char kGetStream[] = "aoti_torch_get_current_cuda_stream";
using GetStream = int32_t(int32_t device, void** stream);

GetStream* FindGetStream() {
  void* const library = dlopen(kCudaLibrary, RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<GetStream*>(dlsym(library, kGetStream));
}

bool CurrentStream(int device, void** stream) {
  static GetStream* const get_stream = FindGetStream();
  return get_stream != nullptr && get_stream(device, stream) == 0;
}

DeviceNumbers* ProcessNumbers() {
  static auto* const numbers =
      new DeviceNumbers({"libcuda.so.1", NvrtcNames(reinterpret_cast<const void*>(FindGetStream()))});
  return numbers;
}

std::atomic<DeviceNumbers*> g_device_numbers{nullptr};  // null before the first use
std::atomic<StreamOfDevice*> g_device_stream_of{&CurrentStream};

void CountLostOnDevice(const char* what) {
  Recorder::Get()->CountLost(what, [] { return std::string("left out"); });
}

}  // namespace

// Never destroyed. A forked process begins anew: another thread may have held the lock.
class DeviceNotes {
 public:
  static DeviceNotes& Get() {
    alignas(DeviceNotes) static char memory[sizeof(DeviceNotes)];
    static auto* const notes = [] {
      pthread_atfork(nullptr, nullptr, [] { new (memory) DeviceNotes(); });
      return new (memory) DeviceNotes();
    }();
    return *notes;
  }

  std::optional<TensorNote::Numbers> NumbersOf(const DeviceRead& read, uint64_t shape_seed) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!read.numbers_.has_value()) return std::nullopt;
    return WithShape(read, shape_seed);
  }

  std::shared_ptr<DeviceRead> Read(const DeviceTensor& tensor, DeviceNumbers* numbers) {
    const absl::Status prepared = numbers->Prepare(tensor.device, tensor.stream);
    if (absl::IsUnavailable(prepared)) return CountLostOnDevice(kCaptured), nullptr;
    if (!prepared.ok()) return TellFailure(tensor.device, prepared), nullptr;
    auto read = std::make_shared<DeviceRead>();
    read->shape_seed_ = ShapeSeed(tensor.type, tensor.sizes);
    uint64_t ticket = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ticket = ++last_ticket_;
      reads_.emplace(ticket, read);
    }
    const Launched launched = numbers->Launch(tensor, ticket);
    if (launched == Launched::kYes) return read;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      reads_.erase(ticket);
    }
    switch (launched) {
      case Launched::kCapturing:
        CountLostOnDevice(kCaptured);
        break;
      case Launched::kFull:
        CountLostOnDevice(kFull);
        break;
      case Launched::kUnsupported:
        CountLostOnDevice(kUnsupported);
        break;
      default:
        TellFailure(tensor.device, numbers->Failure(tensor.device));
    }
    return nullptr;
  }

  // `recorder`: of the calling thread.
  void Add(const std::shared_ptr<DeviceRead>& read, const DeviceRead::Note& note, ThreadRecorder* recorder) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (read->lost_) return;
      if (!read->numbers_.has_value()) {
        read->waiting_.push_back(note);
        return;
      }
    }
    Record(note, WithShape(*read, note.shape_seed), recorder);
  }

  void Take(uint64_t ticket, const Numbers* numbers) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = reads_.find(ticket);
    if (at == reads_.end()) return;
    const std::shared_ptr<DeviceRead> read = std::move(at->second);
    reads_.erase(at);
    if (numbers == nullptr) {
      read->lost_ = true;
      CountLostOnDevice(kNotComputed);
    } else {
      read->numbers_ = NotedNumbers(*numbers);
      for (const DeviceRead::Note& note : read->waiting_)
        arrived_[ThreadOf(note.call)].emplace_back(note, WithShape(*read, note.shape_seed));
      arrived_count_ += read->waiting_.size();
    }
    read->waiting_ = {};
  }

  std::optional<NanCall> Judge(NanCall call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Verdict verdict = VerdictOn(call);
    if (verdict == Verdict::kMadeIt) return call;
    if (verdict == Verdict::kOpen) nan_calls_.push_back(std::move(call));
    return std::nullopt;
  }

  std::optional<NanCall> NextNan() {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (!nan_calls_.empty()) {
      const Verdict verdict = VerdictOn(nan_calls_.front());
      if (verdict == Verdict::kOpen) break;
      NanCall call = std::move(nan_calls_.front());
      nan_calls_.pop_front();
      if (verdict == Verdict::kMadeIt) return call;
    }
    return std::nullopt;
  }

  bool has_arrived() const { return arrived_count_.load(std::memory_order_relaxed) != 0; }

  // What arrived of the thread's own calls.
  void RecordOwn(ThreadRecorder* recorder) {
    std::vector<Arrived> own;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto at = arrived_.find(ThreadOf(recorder->LastEntered()));
      if (at == arrived_.end()) return;
      own.swap(at->second);
      arrived_.erase(at);
      arrived_count_ -= own.size();
    }
    for (const auto& [note, numbers] : own) Record(note, numbers, recorder);
  }
  // And of all others'.
  void KeepAll() {
    ArrivedByThread all;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      all.swap(arrived_);
      arrived_count_ = 0;
    }
    for (const auto& [thread, arrived] : all) {
      for (const auto& [note, numbers] : arrived) Recorder::Get()->KeepLater(note.call, note.of, Bytes(note, numbers));
    }
  }

 private:
  using Arrived = std::pair<DeviceRead::Note, TensorNote::Numbers>;
  // A thread that has entered no call is in session 0.
  using Thread = std::pair<uint64_t, uint64_t>;
  using ArrivedByThread = std::map<Thread, std::vector<Arrived>>;

  enum class Verdict : uint8_t { kDidNot, kMadeIt, kOpen };

  // With the lock.
  static Verdict VerdictOn(const NanCall& call) {
    const auto waits = [](const std::shared_ptr<DeviceRead>& read) { return !read->numbers_ && !read->lost_; };
    const auto has_nan = [](const std::shared_ptr<DeviceRead>& read) {
      return read->numbers_.has_value() && read->numbers_->nans != 0;
    };
    const auto is_lost = [](const std::shared_ptr<DeviceRead>& read) { return read->lost_; };
    const auto any_of = [](const SeenNans& seen, const auto& is) {
      return std::any_of(seen.later.begin(), seen.later.end(), is);
    };
    // Of an argument whose numbers are lost nothing may be said.
    if (call.taken.any || any_of(call.taken, has_nan) || any_of(call.taken, is_lost)) return Verdict::kDidNot;
    const bool made = call.made.any || any_of(call.made, has_nan);
    if (!made) return any_of(call.made, waits) ? Verdict::kOpen : Verdict::kDidNot;
    return any_of(call.taken, waits) ? Verdict::kOpen : Verdict::kMadeIt;
  }

  static Thread ThreadOf(const EnteredCall& call) { return {call.session, call.thread}; }

  // Once they have arrived, which they do once.
  static TensorNote::Numbers WithShape(const DeviceRead& read, uint64_t shape_seed) {
    TensorNote::Numbers numbers = *read.numbers_;
    numbers.fingerprint = FinishFingerprint(SumOfWords(numbers.fingerprint, read.shape_seed_), shape_seed);
    return numbers;
  }
  static std::string Bytes(const DeviceRead::Note& note, const TensorNote::Numbers& numbers) {
    std::string bytes;
    AppendTensorNote({.position = note.position, .numbers = numbers}, &bytes);
    return bytes;
  }
  static void Record(const DeviceRead::Note& note, const TensorNote::Numbers& numbers, ThreadRecorder* recorder) {
    const std::string bytes = Bytes(note, numbers);
    if (!recorder->Later(note.call, note.of, bytes)) CountLostOnDevice(kTooLate);
  }
  static void TellFailure(int device, const absl::Status& status) {
    if (status.ok()) return;
    Recorder::Get()->NoteNotSeen("numbers of tensors on cuda:" + std::to_string(device) + ": " +
                                 std::string(status.message()));
  }

  std::mutex mutex_;
  uint64_t last_ticket_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<DeviceRead>> reads_;  // under way
  // Each waits for numbers under way, of which there are few, so there are few of these.
  std::deque<NanCall> nan_calls_;
  ArrivedByThread arrived_;
  std::atomic<size_t> arrived_count_{0};
};

namespace {

// Notes on the arguments of the call that the thread describes; it has a number once it is entered.
struct NotedArgument {
  LaterNumbers numbers;
  uint64_t position;
};
thread_local std::vector<NotedArgument> t_arguments;

void TakeEntered(bool entered) {
  const auto arguments = std::exchange(t_arguments, {});
  ThreadRecorder* const recorder = t_thread.recorder;
  if (!entered || recorder == nullptr) return;
  for (const auto& [numbers, position] : arguments) {
    DeviceNotes::Get().Add(numbers.read, {recorder->LastEntered(), LaterOf::kArguments, position, numbers.shape_seed},
                           recorder);
  }
}

void Drain() {
  DeviceNumbers* const numbers = g_device_numbers.load();
  if (numbers == nullptr) return;
  numbers->Drain([](uint64_t ticket, const Numbers* of) { DeviceNotes::Get().Take(ticket, of); }, kSecondsToDrain);
  DeviceNotes::Get().KeepAll();
  if (const std::optional<NanCall> call = NextNan()) Recorder::Get()->SetEndError(NanMessage(*call).c_str());
}

}  // namespace

std::string NanMessage(const NanCall& call) {
  return absl::StrCat(call.api, " (call ", call.call.call, " of thread ", call.call.thread,
                      call.module.empty() ? "" : ", in ", call.module,
                      ") made a NaN: its arguments have none (torchtrace run --stop-on-nan; torchtrace nan shows the "
                      "call)");
}

std::optional<NanCall> JudgeNan(NanCall call) {
  if (!call.made.any && call.made.later.empty()) return std::nullopt;
  return DeviceNotes::Get().Judge(std::move(call));
}

std::optional<NanCall> NextNan() { return DeviceNotes::Get().NextNan(); }

std::optional<TensorNote::Numbers> LaterNumbers::Arrived() const {
  return DeviceNotes::Get().NumbersOf(*read, shape_seed);
}

std::shared_ptr<DeviceRead> ReadOnDevice(ElementType type, const void* first, std::span<const int64_t> sizes,
                                         std::span<const int64_t> strides, FlippedSigns flipped, int device) {
  DeviceNumbers* numbers = g_device_numbers.load(std::memory_order_acquire);
  if (numbers == nullptr) g_device_numbers = numbers = ProcessNumbers();
  void* stream = nullptr;
  if (!g_device_stream_of.load()(device, &stream)) {
    CountLostOnDevice(kNoStream);
    return nullptr;
  }
  return DeviceNotes::Get().Read({type, reinterpret_cast<uintptr_t>(first), sizes, strides, device, stream, flipped},
                                 numbers);
}

void NoteLater(const LaterNumbers& numbers, ConfigBuilder* config) {
  const uint64_t position = config->tensors() - 1;
  if (config->later_of() == LaterOf::kArguments) {
    // A description that is repeated for first notes has them from the first time.
    if (!config->takes_first_notes()) {
      if (!config->has_later()) t_arguments.clear();
      t_arguments.push_back({numbers, position});
    }
    config->SetHasLater();
    return;
  }
  ThreadRecorder* const recorder = t_thread.recorder;
  if (recorder == nullptr) return;
  const std::optional<EnteredCall> call = recorder->InnermostCall();
  if (!call.has_value()) return;
  DeviceNotes::Get().Add(numbers.read, {*call, config->later_of(), position, numbers.shape_seed}, recorder);
}

void PollDeviceNotes() {
  DeviceNumbers* const numbers = g_device_numbers.load(std::memory_order_acquire);
  if (numbers == nullptr) return;
  DeviceNotes& notes = DeviceNotes::Get();
  if (numbers->waits()) numbers->Poll([&notes](uint64_t ticket, const Numbers* of) { notes.Take(ticket, of); });
  if (notes.has_arrived() && t_thread.recorder != nullptr) notes.RecordOwn(t_thread.recorder);
}

void BeginDeviceNotes() {
  Recorder::SetEntered(&TakeEntered);
  Recorder::SetBeforeFinish(&Drain);
}

void EndDeviceNotes() { Drain(); }

void UseDeviceNumbers(DeviceNumbers* numbers, StreamOfDevice* stream_of) {
  g_device_numbers = numbers;
  g_device_stream_of = stream_of;
}

}  // namespace torchtrace::torch_dialect
