#include "dialects/torch/device_times/device_times.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tracer/record/recorder.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::torch_dialect {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr size_t kBufferAlignment = 8;
// Full buffers that wait to be read: while there are as many, CUPTI counts what it drops.
constexpr size_t kMostFull = 64;
// How long records wait in CUPTI's buffers, of which threads may have their own: later, calls may no longer be recent.
constexpr std::chrono::milliseconds kFlushPeriod{100};
// Launches that are kept, for work that comes long after, as that of graphs.
constexpr size_t kMostLaunches = 1 << 20;
// Work whose call is not known yet, and perhaps never will be.
constexpr size_t kMostWaiting = 1 << 17;
// Calls whose work their threads haven't recorded yet.
constexpr size_t kMostArrived = 1 << 18;
constexpr size_t kThreadSlots = 1 << 12;
constexpr int kKinds[] = {kCuptiConcurrentKernel, kCuptiMemcpy, kCuptiMemset, kCuptiMemcpyPeer,
                          kCuptiExternalCorrelation};
constexpr char kInFlight[] = "device times of work that still ran at the end, or when the program's profiler began";
constexpr char kDropped[] = "device times that CUPTI had no room for";
constexpr char kCameTooLate[] = "device times that came too late";

// The number of a call for CUPTI: 8 bits of its session, 16 of its thread, 40 of its number on it.
constexpr uint64_t kMostThreads = uint64_t{1} << 16;
constexpr uint64_t kMostCalls = uint64_t{1} << 40;
uint64_t IdOf(const EnteredCall& call) { return (call.session & 0xff) << 56 | call.thread << 40 | call.call; }

int64_t ClockNs(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}
uint64_t MonotonicNs() { return static_cast<uint64_t>(ClockNs(CLOCK_MONOTONIC)); }

// Of the process, never destroyed. A forked process has no device times: CUDA can't be used there.
class DeviceTimesOfProcess {
 public:
  static DeviceTimesOfProcess& Get() {
    static auto* const times = new DeviceTimesOfProcess();
    return *times;
  }

  absl::Status Begin(const Cupti& cupti) {
    // Another thread may have held the lock when it forked.
    if (forked()) return absl::FailedPreconditionError("a forked process has none");
    const std::lock_guard<std::mutex> lock(control_);
    if (running_) return absl::OkStatus();
    cupti_ = cupti;
    session_ = SessionState::session();
    ends_ = false;
    aside_since_ns_.reset();
    aside_ns_ = outside_ = 0;
    launches_.clear();
    older_launches_.clear();
    waiting_.clear();
    waiting_order_.clear();
    names_.clear();
    if (absl::Status status = Enable(); !status.ok()) return status;
    sigset_t all, before;
    sigfillset(&all);
    // The program's signals are for its own threads.
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(
        &reader_, nullptr,
        [](void*) -> void* {
          Get().ReadBuffers();
          return nullptr;
        },
        nullptr);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (failed != 0) {
      Disable();
      return absl::InternalError("there can be no other thread");
    }
    pthread_setname_np(reader_, "torchtrace");
    // By which readers know that there are device times.
    Recorder::Get()->AddOwnMetadata(R"({"device_names":{}})");
    running_ = true;
    marks_ = true;
    return absl::OkStatus();
  }

  void End() {
    if (forked()) return;
    const std::lock_guard<std::mutex> lock(control_);
    if (!running_) return;
    marks_ = false;
    if (aside_since_ns_.has_value()) {
      aside_ns_ += MonotonicNs() - *std::exchange(aside_since_ns_, std::nullopt);
    } else {
      Disable();
    }
    {
      const std::lock_guard<std::mutex> queue(queue_mutex_);
      ends_ = true;
    }
    wake_.notify_one();
    pthread_join(reader_, nullptr);
    running_ = false;
    for (const auto& [correlation, works] : waiting_) outside_ += works.size();
    Recorder* const recorder = Recorder::Get();
    for (const auto& [thread, arrived] : TakeAllArrived()) {
      for (const auto& [call, bytes] : arrived) recorder->KeepLater(call, LaterOf::kDeviceWork, bytes);
    }
    if (outside_ != 0) {
      recorder->NoteNotSeen(absl::StrCat(
          "device times: those of work that no recorded call launched: kernels, copies and memsets: ", outside_));
    }
    if (aside_ns_ != 0) {
      recorder->NoteNotSeen(absl::StrFormat("device times: those of %.3f s in which the program's own profiler ran",
                                            static_cast<double>(aside_ns_) / 1e9));
    }
  }

  void StepAside() {
    if (forked()) return;
    const std::lock_guard<std::mutex> lock(control_);
    if (!running_ || aside_since_ns_.has_value()) return;
    marks_ = false;
    if (ThreadRecorder* const own = t_thread.recorder) own->UnmarkAll();
    Disable();
    aside_since_ns_ = MonotonicNs();
  }

  void Return() {
    if (forked()) return;
    const std::lock_guard<std::mutex> lock(control_);
    if (!running_ || !aside_since_ns_.has_value()) return;
    if (const absl::Status status = Enable(); !status.ok()) return;  // the time aside goes on
    aside_ns_ += MonotonicNs() - *std::exchange(aside_since_ns_, std::nullopt);
    marks_ = true;
  }

  bool Mark(ThreadRecorder* thread, const EnteredCall& call) {
    if (!marks_.load(std::memory_order_relaxed) || forked()) return false;
    if (ArrivedFor(call.thread).load(std::memory_order_relaxed) != 0) RecordArrived(thread, call);
    if (call.thread >= kMostThreads || call.call >= kMostCalls) return false;
    return cupti_.cuptiActivityPushExternalCorrelationId(kCuptiCustom2, IdOf(call)) == kCuptiSuccess;
  }
  void Unmark() {
    uint64_t last;
    if (!forked()) cupti_.cuptiActivityPopExternalCorrelationId(kCuptiCustom2, &last);
  }

 private:
  struct Buffer {
    uint8_t* bytes;
    size_t valid_bytes;
  };
  using Arrived = std::pair<EnteredCall, std::string>;

  DeviceTimesOfProcess() {
    pthread_atfork(nullptr, nullptr, [] { Get().forked_.store(true, std::memory_order_relaxed); });
  }
  bool forked() const { return forked_.load(std::memory_order_relaxed); }

  // With control_.
  absl::Status Enable() {
    if (cupti_.cuptiActivityRegisterCallbacks(&Requested, &Completed) != kCuptiSuccess) {
      return absl::FailedPreconditionError("CUPTI takes no client now: another tool may use it");
    }
    // Otherwise CUPTI takes the time of day.
    const bool own_clock = cupti_.cuptiActivityRegisterTimestampCallback(&MonotonicNs) == kCuptiSuccess;
    to_monotonic_ns_ = own_clock ? 0 : ClockNs(CLOCK_MONOTONIC) - ClockNs(CLOCK_REALTIME);
    for (const int kind : kKinds) {
      // Copies between devices are few.
      if (cupti_.cuptiActivityEnable(kind) == kCuptiSuccess || kind == kCuptiMemcpyPeer) continue;
      Disable();
      return absl::FailedPreconditionError(
          absl::StrCat("CUPTI can't record activities of kind ", kind, ": another tool may use it"));
    }
    // The numbers of calls come only with records of the functions that launch.
    EnableFunctions(cupti_.cuptiActivityEnableRuntimeApi, kCuptiRuntime, LaunchingRuntimeFunctions());
    EnableFunctions(cupti_.cuptiActivityEnableDriverApi, kCuptiDriver, LaunchingDriverFunctions());
    return absl::OkStatus();
  }
  void EnableFunctions(CuptiResult (*enable)(uint32_t, uint8_t), int kind, std::span<const uint16_t> functions) {
    bool some = false;
    // A version may lack some.
    for (const uint16_t function : functions) some |= enable != nullptr && enable(function, 1) == kCuptiSuccess;
    if (!some) cupti_.cuptiActivityEnable(kind);
  }
  void Disable() {
    cupti_.cuptiActivityFlushAll(0);
    for (const int kind : kKinds) cupti_.cuptiActivityDisable(kind);
    cupti_.cuptiActivityDisable(kCuptiRuntime);
    cupti_.cuptiActivityDisable(kCuptiDriver);
    // No buffer of ours may come to the next client.
    cupti_.cuptiActivityFlushAll(kCuptiForced);
    CountDropped(nullptr, 0);
  }

  static void Requested(uint8_t** buffer, size_t* bytes, size_t* most_records) {
    *most_records = 0;  // as many as there is room for
    *bytes = kBufferBytes;
    *buffer = Get().TakeFree();
    if (*buffer == nullptr) *bytes = 0;
  }
  uint8_t* TakeFree() {
    {
      const std::lock_guard<std::mutex> lock(queue_mutex_);
      if (full_.size() >= kMostFull) return nullptr;
      if (!free_.empty()) {
        uint8_t* const buffer = free_.back();
        free_.pop_back();
        return buffer;
      }
    }
    return static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  }

  static void Completed(void* context, uint32_t stream, uint8_t* buffer, size_t, size_t valid_bytes) {
    DeviceTimesOfProcess& times = Get();
    times.CountDropped(context, stream);
    {
      const std::lock_guard<std::mutex> lock(times.queue_mutex_);
      times.full_.push_back({buffer, valid_bytes});
    }
    times.wake_.notify_one();
  }
  // Since the last time.
  void CountDropped(void* context, uint32_t stream) {
    size_t dropped = 0;
    if (cupti_.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) != kCuptiSuccess) return;
    const std::lock_guard<std::mutex> lock(queue_mutex_);
    dropped_ += dropped;
  }

  // On its own thread.
  void ReadBuffers() {
    auto flushed = std::chrono::steady_clock::now();
    while (true) {
      std::optional<Buffer> buffer;
      size_t dropped = 0;
      {
        std::unique_lock<std::mutex> lock(queue_mutex_);
        wake_.wait_for(lock, kFlushPeriod, [this] { return !full_.empty() || ends_; });
        dropped = std::exchange(dropped_, 0);
        if (!full_.empty()) {
          buffer = full_.front();
          full_.pop_front();
        } else if (ends_ && dropped == 0) {
          return;
        }
      }
      if (buffer.has_value()) {
        Read(*buffer);
        const std::lock_guard<std::mutex> lock(queue_mutex_);
        free_.push_back(buffer->bytes);
      }
      if (const auto now = std::chrono::steady_clock::now(); now - flushed >= kFlushPeriod) {
        Flush();
        flushed = now;
      }
      for (; dropped != 0; --dropped) Lose(kDropped);
    }
  }

  // What is complete, unless the program's profiler is CUPTI's client or may become it right now.
  void Flush() {
    const std::unique_lock<std::mutex> lock(control_, std::try_to_lock);
    if (lock.owns_lock() && running_ && !aside_since_ns_.has_value()) cupti_.cuptiActivityFlushAll(0);
  }

  void Read(const Buffer& buffer) {
    nlohmann::json names = nlohmann::json::object();
    const auto number_of = [&](const char* name) -> uint64_t {
      if (name == nullptr || *name == '\0') return 0;
      const auto [at, fresh] = names_.try_emplace(name, names_.size() + 1);
      if (fresh) names[absl::StrCat(at->second)] = name;
      return at->second;
    };
    std::vector<uint32_t> touched;
    void* record = nullptr;
    while (cupti_.cuptiActivityGetNextRecord(buffer.bytes, buffer.valid_bytes, &record) == kCuptiSuccess) {
      CuptiRecord read = ReadCuptiRecord(record);
      if (read.kind == CuptiRecord::kExternalId && read.external_kind == kCuptiCustom2) {
        LaunchOf(read.correlation).id = read.external_id;
        touched.push_back(read.correlation);
      } else if (read.kind == CuptiRecord::kLaunch) {
        Launch& launch = LaunchOf(read.correlation);
        launch.start_ns = read.launch_start_ns + to_monotonic_ns_;
        launch.ns = read.launch_ns;
      } else if (read.kind == CuptiRecord::kWork && !read.ended) {
        Lose(kInFlight);
      } else if (read.kind == CuptiRecord::kWork) {
        read.work.name = number_of(read.name);
        read.work.start_ns += to_monotonic_ns_;
        waiting_[read.correlation].push_back(read.work);
        touched.push_back(read.correlation);
      }
    }
    // Before the work that refers to them is recorded.
    if (!names.empty()) {
      const nlohmann::json metadata = {{"device_names", std::move(names)}};
      Recorder::Get()->AddOwnMetadata(metadata.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
    for (const uint32_t correlation : touched) Attribute(correlation);
    for (; waiting_order_.size() > kMostWaiting; waiting_order_.pop_front()) {
      const auto works = waiting_.extract(waiting_order_.front());
      if (!works.empty()) outside_ += works.mapped().size();
    }
  }

  // Work may come before the number of its call, which need not come.
  void Attribute(uint32_t correlation) {
    const auto works = waiting_.find(correlation);
    if (works == waiting_.end()) return;
    const Launch* const launch = FindLaunch(correlation);
    if (launch == nullptr || !launch->id.has_value()) {
      waiting_order_.push_back(correlation);
      return;
    }
    const uint64_t id = *launch->id;
    // Otherwise it was launched in a call of an earlier session.
    if (id >> 56 == (session_ & 0xff)) {
      const EnteredCall call = {session_, id >> 40 & (kMostThreads - 1), id & (kMostCalls - 1)};
      std::string bytes;
      for (DeviceWork& work : works->second) {
        // The clocks of device and driver may differ by a little.
        if (launch->start_ns != 0 && launch->start_ns < work.start_ns) {
          work.launched_before_ns = work.start_ns - launch->start_ns;
          work.launch_ns = launch->ns;
        }
        AppendDeviceWork(work, &bytes);
      }
      AddArrived(call, std::move(bytes));
    }
    waiting_.erase(works);
  }

  // What is known of a call of the driver.
  struct Launch {
    std::optional<uint64_t> id;
    int64_t start_ns = 0;  // 0: unknown
    int64_t ns = 0;
  };
  // To be changed.
  Launch& LaunchOf(uint32_t correlation) {
    if (const auto at = launches_.find(correlation); at != launches_.end()) return at->second;
    if (launches_.size() >= kMostLaunches) older_launches_ = std::exchange(launches_, {});
    const auto older = older_launches_.extract(correlation);
    return launches_.try_emplace(correlation, older.empty() ? Launch() : older.mapped()).first->second;
  }
  const Launch* FindLaunch(uint32_t correlation) const {
    for (const auto* launches : {&launches_, &older_launches_}) {
      if (const auto at = launches->find(correlation); at != launches->end()) return &at->second;
    }
    return nullptr;
  }

  // How many calls of a thread, and of those with the same slot, have work that arrived.
  std::atomic<uint32_t>& ArrivedFor(uint64_t thread) { return arrived_for_[thread % kThreadSlots]; }

  void AddArrived(const EnteredCall& call, std::string bytes) {
    const std::lock_guard<std::mutex> lock(arrived_mutex_);
    std::vector<Arrived>& arrived = arrived_[call.thread];
    if (!arrived.empty() && arrived.back().first == call) {
      arrived.back().second += bytes;
      return;
    }
    arrived.emplace_back(call, std::move(bytes));
    ++ArrivedFor(call.thread);
    // Threads that have ended record nothing more. The oldest ones are those most likely.
    if (++arrived_count_ <= kMostArrived) return;
    for (size_t lost = TakeArrived(arrived_.begin()).size(); lost != 0; --lost) Lose(kCameTooLate);
  }
  using AllArrived = std::map<uint64_t, std::vector<Arrived>>;  // by thread
  // With arrived_mutex_.
  std::vector<Arrived> TakeArrived(AllArrived::iterator of) {
    std::vector<Arrived> taken = std::move(of->second);
    ArrivedFor(of->first) -= static_cast<uint32_t>(taken.size());
    arrived_count_ -= taken.size();
    arrived_.erase(of);
    return taken;
  }
  AllArrived TakeAllArrived() {
    const std::lock_guard<std::mutex> lock(arrived_mutex_);
    AllArrived all;
    while (!arrived_.empty()) {
      const uint64_t thread = arrived_.begin()->first;
      all[thread] = TakeArrived(arrived_.begin());
    }
    return all;
  }

  void RecordArrived(ThreadRecorder* thread, const EnteredCall& now) {
    std::vector<Arrived> own;
    {
      const std::lock_guard<std::mutex> lock(arrived_mutex_);
      if (const auto at = arrived_.find(now.thread); at != arrived_.end()) own = TakeArrived(at);
    }
    for (const auto& [call, bytes] : own) {
      if (!thread->Later(call, LaterOf::kDeviceWork, bytes)) Lose(kCameTooLate);
    }
  }

  static void Lose(const char* what) {
    Recorder::Get()->CountLost(what, [] { return std::string("left out"); });
  }

  std::mutex control_;  // of sessions, and who is CUPTI's client
  Cupti cupti_;
  uint64_t session_ = 0;
  bool running_ = false;
  std::atomic<bool> marks_{false};
  std::atomic<bool> forked_{false};
  pthread_t reader_ = {};
  std::optional<uint64_t> aside_since_ns_;
  uint64_t aside_ns_ = 0;

  std::mutex queue_mutex_;
  std::condition_variable wake_;
  std::deque<Buffer> full_;
  std::vector<uint8_t*> free_;
  size_t dropped_ = 0;
  bool ends_ = false;

  // Of the reading thread.
  std::atomic<int64_t> to_monotonic_ns_{0};
  absl::flat_hash_map<uint32_t, Launch> launches_, older_launches_;  // by correlation
  absl::flat_hash_map<uint32_t, std::vector<DeviceWork>> waiting_;   // by correlation
  std::deque<uint32_t> waiting_order_;                               // with some that no longer wait
  absl::flat_hash_map<std::string, uint64_t> names_;
  uint64_t outside_ = 0;

  std::mutex arrived_mutex_;
  AllArrived arrived_;
  size_t arrived_count_ = 0;
  std::array<std::atomic<uint32_t>, kThreadSlots> arrived_for_{};
};

bool MarkCall(ThreadRecorder* thread, const EnteredCall& call) {
  return DeviceTimesOfProcess::Get().Mark(thread, call);
}
void UnmarkCall() { DeviceTimesOfProcess::Get().Unmark(); }
constexpr CallMarks kDeviceMarks = {MarkCall, UnmarkCall};

std::atomic<Recorder::BeforeFinish> g_finish_after_device_times{nullptr};

void FinishDeviceTimes() {
  DeviceTimesOfProcess::Get().End();
  if (const auto next = g_finish_after_device_times.load()) next();
}

}  // namespace

absl::Status BeginDeviceTimes(const Cupti& cupti) {
  if (absl::Status status = DeviceTimesOfProcess::Get().Begin(cupti); !status.ok()) return status;
  Recorder::SetMarks(&kDeviceMarks);
  if (const auto before = Recorder::SetBeforeFinish(&FinishDeviceTimes); before != &FinishDeviceTimes) {
    g_finish_after_device_times = before;
  }
  return absl::OkStatus();
}

void EndDeviceTimes() { DeviceTimesOfProcess::Get().End(); }
void LeaveCuptiToProgram() { DeviceTimesOfProcess::Get().StepAside(); }
void TakeCuptiBack() { DeviceTimesOfProcess::Get().Return(); }

}  // namespace torchtrace::torch_dialect
