#include "tracer/record/recorder.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "serialize/base/log_folder.h"
#include "serialize/base/text.h"
#include "serialize/log/log_writer.h"
#include "serialize/model/config.h"
#include "tracer/record/standard_error.h"

namespace torchtrace {
namespace {

constexpr uint32_t kFirstFrameBytes = 64 << 10;
constexpr uint32_t kEndFrameBytes = 32 << 10;
constexpr uint32_t kCountsFrameBytes = 64 << 10;
// What a frame must have left for another thread: room for most records.
constexpr uint64_t kSpareFrameBytes = 4 << 10;
// For the short last words, whose size is bounded.
constexpr size_t kShortEndBytes = 2 << 10;
// When the clock is first recorded again; then each time ten times later.
constexpr uint64_t kFirstClockNs = 10'000'000;
// How many started programs are listed, and the most bytes of their names.
constexpr size_t kMaxStarted = 20;
// How many threads that have ended are kept, for the last words and later notes: a program may make millions.
constexpr size_t kMostEndedThreads = 10'000;
// How many ends of steps wait to be written: together they take little more than a frame.
constexpr size_t kMostStepEnds = 128;
// Processes of one run that have the same process id.
constexpr int kMostLogsOfPid = 1000;
constexpr size_t kMaxStartedBytes = 300;
constexpr char kOtherStarted[] = "others";
constexpr size_t kMaxErrorBytes = 300;
constexpr char kLostLater[] = "numbers of tensors and device times that came too late";

// Recording was paused for some time.
constexpr char kPaused[] = R"({"paused":true})";
// The user held calls back.
constexpr char kHeldBack[] = R"({"held_back":true})";

// By what readers find the program's steps, if not by calls of modules.
std::string StepKindJson(StepKind kind) { return absl::StrCat(R"({"steps_by":")", StepKindName(kind), R"("})"); }

// When steps ended after which nothing was recorded.
std::string StepEndsJson(const std::vector<StepWindow::StepEnd>& steps) {
  std::map<StepKind, std::string> by_kind;
  for (const StepWindow::StepEnd& step : steps) {
    std::string& ends = by_kind[step.kind];
    absl::StrAppend(&ends, ends.empty() ? "\"" : ",\"", step.number, "\":", step.end_ns);
  }
  std::string json;
  for (const auto& [kind, ends] : by_kind) {
    absl::StrAppend(&json, json.empty() ? "" : ",", "\"", StepKindName(kind), "\":{", ends, "}");
  }
  return absl::StrCat(R"({"step_ends":{)", json, "}}");
}

std::atomic<Recorder*> g_recorder{nullptr};

// How many of the session's forked processes could not create a log. In shared memory, as they have no other place to
// report it; null if there was none.
std::atomic<uint32_t>* g_forks_without_log = nullptr;

void ShareForksWithoutLog() {
  constexpr size_t kBytes = sizeof *g_forks_without_log;
  if (g_forks_without_log != nullptr) munmap(g_forks_without_log, kBytes);
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  g_forks_without_log = memory == MAP_FAILED ? nullptr : new (memory) std::atomic<uint32_t>(0);
}

std::string SchemaJson(std::string_view api, std::string_view schema) {
  std::string json = R"({"schemas":{)";
  AppendJson(api, &json);
  json += ":";
  AppendJson(schema, &json);
  return json + "}}";
}

void CountForkWithoutLog() {
  if (g_forks_without_log != nullptr) g_forks_without_log->fetch_add(1);
}

// Stores a metadata frame's payload.
void Fill(Frame frame, std::string_view json) {
  std::memcpy(frame.payload(), json.data(), json.size());
  frame.header->committed_bytes = static_cast<uint32_t>(json.size());
}

}  // namespace

// The calling thread's recorder, freed when the thread ends.
struct ThreadHolder {
  ~ThreadHolder() {
    ended = true;
    if (thread != nullptr) thread->recorder_->EndThread(std::exchange(thread, nullptr));
  }
  ThreadRecorder* thread = nullptr;
  bool ended = false;
};

namespace {
thread_local ThreadHolder t_holder;
}  // namespace

std::atomic<void (*)()> Recorder::enter_open_calls_{nullptr};
std::atomic<void (*)()> Recorder::before_finish_{nullptr};
std::atomic<void (*)()> Recorder::before_module_{nullptr};
std::atomic<void (*)(bool)> Recorder::entered_{nullptr};
std::atomic<const CallMarks*> Recorder::marks_{nullptr};
std::atomic<std::string (*)(std::string_view)> Recorder::schema_of_{nullptr};

absl::Status Recorder::Start(RecorderOptions options) {
  try {
    if (Recorder* const known = Get()) return known->Begin(std::move(options));
    std::unique_ptr<Recorder> recorder(new Recorder());
    recorder->unit_ns_ = CalibrateClock();
    if (absl::Status status = recorder->Begin(std::move(options)); !status.ok()) return status;
    g_recorder = recorder.release();
    pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(error.what());
  }
}

absl::Status Recorder::Begin(RecorderOptions options) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!finished_) return absl::FailedPreconditionError("recording has started already");
  options_ = std::make_shared<const RecorderOptions>(std::move(options));
  quiet_ = options_->recording.quiet;
  free_frames_.clear();
  threads_.clear();
  kept_.clear();
  ended_threads_.clear();
  ended_for_later_.clear();
  more_ended_threads_.reset();
  added_metadata_.clear();
  own_metadata_.clear();
  step_ends_.clear();
  told_schemas_.clear();
  notes_ = {};
  end_error_.clear();
  intern_resets_ = 0;
  next_thread_ = 0;
  parent_pid_ = 0;
  forked_ = false;
  named_ = false;
  before_children_.reset();
  paused_ = was_paused_ = options_->recording.start_paused;
  over_ = false;
  held_ = false;
  pid_ = getpid();
  had_log_ = false;
  log_.reset();
  told_bytes_ = 0;
  end_frame_ = Frame();
  steps_ = StepMarks();
  step_kind_ = StepKind::kForward;
  tags_.clear();
  step_kind_ = PutTags(options_->tags);
  ++tags_version_;
  if (!options_->waits_for_calls) {
    if (absl::Status status = OpenLog(); !status.ok()) return status;
  }
  ShareForksWithoutLog();
  const RecordingOptions& recording = options_->recording;
  window_ = CallWindow::Limits(recording) ? std::make_shared<CallWindow>(recording) : nullptr;
  step_window_.reset();
  if (StepWindow::Limits(recording)) step_window_.emplace(recording).Move(StepNow(), /*recorded=*/false);
  counter_ = recording.max_size != 0 ? std::make_shared<CallCounter>() : nullptr;
  SessionState::MapControlPage(options_->log_folder);
  ++session_;
  stop_reason_bytes_ = 0;
  stopped_ = false;
  finished_ = false;
  SessionState::session_ = session_;
  SessionState::wants_results_ = options_->recording.outputs;
  NewEpoch();
  return absl::OkStatus();
}

void Recorder::NewEpoch() {
  const bool between_steps = step_window_.has_value() && !step_window_->admits();
  SessionState::epoch_ = finished_ || paused_ || stopped_ || over_ || between_steps ? 0 : ++last_epoch_;
  // Stop takes no lock, so it may have come between.
  if (stopped_) SessionState::epoch_ = 0;
}

void Recorder::SetPaused(bool paused) {
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(paused_, paused) == paused) return;
    NewEpoch();
    if (!paused || finished_ || std::exchange(was_paused_, true) || !OwnsLog()) return;
    log_->AppendMetadata(kPaused).IgnoreError();
  });
}

bool Recorder::HeldByControl() {
  const ControlPage& page = SessionState::control();
  const uint32_t order = page.order.load(std::memory_order_acquire);
  if (order == ControlPage::kWindow && MonotonicNs() < page.until_ns.load(std::memory_order_relaxed)) return false;
  if (order == ControlPage::kNone) return false;
  if (Recorder* const recorder = Get(); !recorder->held_.exchange(true)) recorder->NoteHeld();
  return true;
}

void Recorder::NoteHeld() {
  OrStop([this] {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!finished_ && OwnsLog()) log_->AppendMetadata(kHeldBack).IgnoreError();
  });
}

bool Recorder::paused() {
  std::lock_guard<std::mutex> lock(mutex_);
  return paused_;
}

void Recorder::SetTags(const std::string& json) {
  const bool recorded = Recording() && !HoldsBack();
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    if ((json == "{}" ? "" : json) != tags_) TagsChanged(PutTags(json), recorded);
  });
}

StepKind Recorder::PutTags(const std::string& json) {
  const std::string before(StepTagOf(tags_));
  tags_ = json == "{}" ? "" : json;
  const std::string_view step = StepTagOf(tags_);
  if (step == before) return step_kind_;
  StepMark& mark = steps_.at(StepKind::kTag);
  if (!step.empty()) ++mark.number;
  mark.begin_ns = static_cast<int64_t>(MonotonicNs());
  return StepKind::kTag;
}

void Recorder::SetSteps(const StepMarks& marks, bool decided) {
  const bool recorded = Recording() && !HoldsBack();
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    if (finished_) return;
    for (const StepKind kind : {StepKind::kForward, StepKind::kStep}) steps_.at(kind) = marks.at(kind);
    TagsChanged(decided ? StepKind::kStep : StepKind::kForward, recorded);
  });
}

StepMarks Recorder::ShownSteps() const {
  StepMarks shown = steps_;
  for (const StepKind kind : {StepKind::kForward, StepKind::kStep, StepKind::kTag}) {
    if (kind < step_kind_) shown.at(kind) = StepMark();
  }
  return shown;
}

StepWindow::Place Recorder::StepNow() const {
  const bool tagged = step_kind_ == StepKind::kTag;
  StepWindow::Place place;
  place.kind = tagged ? StepKind::kTag : steps_.at(StepKind::kStep).number > 0 ? StepKind::kStep : StepKind::kForward;
  const StepMark& mark = steps_.at(place.kind);
  place.number = place.name = mark.number;
  place.begin_ns = mark.begin_ns;
  place.in_step = mark.number > 0;
  if (!tagged) return place;
  const std::string_view value = StepTagOf(tags_);
  place.in_step = !value.empty();
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size() && !value.empty()) place.name = number;
  return place;
}

void Recorder::TagsChanged(StepKind kind, bool recorded) {
  if (kind > step_kind_) {
    step_kind_ = kind;
    if (!finished_ && OwnsLog()) log_->AppendMetadata(StepKindJson(step_kind_)).IgnoreError();
  }
  if (step_window_.has_value()) {
    const StepWindow::Place now = StepNow();
    const std::optional<StepWindow::StepEnd> ended = step_window_->Move(now, recorded);
    if (ended.has_value() && !finished_) step_ends_.push_back(*ended);
    // Between steps that the program tags, the next one may be recorded.
    if (step_ends_.size() >= kMostStepEnds || (now.in_step && !step_window_->admits())) WriteStepEnds();
  }
  ++tags_version_;
  NewEpoch();
}

void Recorder::WriteStepEnds() {
  if (step_ends_.empty() || !OwnsLog()) return;
  log_->AppendMetadata(StepEndsJson(step_ends_)).IgnoreError();
  step_ends_.clear();
}

Recorder* Recorder::Get() { return g_recorder.load(std::memory_order_acquire); }

std::string Recorder::FirstMetadata() {
  const std::string& known = options_->metadata_json;
  std::string json = known.substr(0, known.rfind('}'));
  if (json.find('"') != std::string::npos) json.push_back(',');
  absl::StrAppend(&json, R"("role":")", Role(), R"(","pid":)", pid_, R"(,"ppid":)", getppid());
  if (parent_pid_ != 0) absl::StrAppend(&json, R"(,"forked_from":)", parent_pid_);
  timespec realtime;
  clock_gettime(CLOCK_REALTIME, &realtime);
  const ClockReading now = ReadClock();
  origin_ns_ = now.monotonic_ns;
  next_clock_ns_ = origin_ns_ + kFirstClockNs;
  char unit[32];
  snprintf(unit, sizeof unit, "%.17g", unit_ns_);
  absl::StrAppend(&json, R"(,"clock":{"unit_ns":)", unit, R"(,"origin_units":)", now.units,
                  R"(,"origin_monotonic_ns":)", now.monotonic_ns, R"(,"origin_realtime_ns":)",
                  int64_t{realtime.tv_sec} * 1'000'000'000 + realtime.tv_nsec, "}}");
  return json;
}

absl::Status Recorder::OpenLog() {
  pid_ = getpid();
  const std::string stem = absl::StrCat(options_->log_folder, "/", Role(), "-", pid_);
  // Without its first metadata a log says nothing, so it has its name only then, should the process be killed.
  const std::string unfinished = absl::StrCat(stem, kUnfinishedLogSuffix);
  unlink(unfinished.c_str());
  absl::StatusOr<std::unique_ptr<LogWriter>> log =
      LogWriter::Create(unfinished, options_->recording.readable ? 0666 : 0600);
  if (!log.ok()) return log.status();
  absl::Status status = BeginLog(log->get());
  // A process id may be reused in one run.
  for (int attempt = 1; status.ok(); ++attempt) {
    const std::string again = attempt == 1 ? "" : absl::StrCat("-", attempt);
    const absl::Status moved = (*log)->MoveTo(absl::StrCat(stem, again, kLogSuffix));
    if (moved.ok()) {
      log_ = *std::move(log);
      had_log_ = true;
      return absl::OkStatus();
    }
    if (!absl::IsAlreadyExists(moved) || attempt == kMostLogsOfPid) status = moved;
  }
  unlink(unfinished.c_str());
  return status;
}

bool Recorder::OwnsLog() {
  if (log_ == nullptr) return false;
  const bool owns = getpid() == pid_;
  if (!owns) StopInStrayFork();
  return owns;
}

absl::Status Recorder::NeedLog() {
  if (log_ != nullptr) return OwnsLog() ? absl::OkStatus() : absl::AbortedError(std::string(stop_reason()));
  absl::Status status = OpenLog();
  if (!status.ok()) CountForkWithoutLog();
  return status;
}

void Recorder::BeginLeavingOut() {
  OrStop([this] {
    std::string failure;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (finished_) return;
      failure = std::string(NeedLog().message());
    }
    if (!failure.empty()) Stop(failure);
  });
}

absl::Status Recorder::BeginLog(LogWriter* log) {
  if (absl::Status status = log->AppendMetadata(FirstMetadata()); !status.ok()) return status;
  for (const std::string& json : added_metadata_) {
    if (absl::Status status = log->AppendMetadata(json); !status.ok()) return status;
  }
  for (const std::string& json : own_metadata_) {
    if (absl::Status status = log->AppendMetadata(json); !status.ok()) return status;
  }
  own_metadata_.clear();
  if (const std::string json = forked_ ? EnvironmentNow() : ""; !json.empty()) {
    if (absl::Status status = log->AppendMetadata(json); !status.ok()) return status;
  }
  if (absl::Status status = WriteProcessName(log); !status.ok()) return status;
  if (was_paused_) {
    if (absl::Status status = log->AppendMetadata(kPaused); !status.ok()) return status;
  }
  if (held_) {
    if (absl::Status status = log->AppendMetadata(kHeldBack); !status.ok()) return status;
  }
  if (step_kind_ != StepKind::kForward) {
    if (absl::Status status = log->AppendMetadata(StepKindJson(step_kind_)); !status.ok()) return status;
  }
  // What a forked child noted before its first call.
  if (!notes_.not_seen.empty() || !notes_.not_imported.empty()) {
    if (absl::Status status = log->AppendMetadata(absl::StrCat("{", NotSeenJson(notes_), "}")); !status.ok()) {
      return status;
    }
  }
  absl::StatusOr<Frame> end = log->Reserve(FrameType::kMetadata, kEndFrameBytes);
  if (!end.ok()) return end.status();
  end_frame_ = *end;
  return absl::OkStatus();
}

absl::Status Recorder::WriteProcessName(LogWriter* log) {
  if (named_ || (!forked_ && !options_->waits_for_calls) || options_->name_process == nullptr) return absl::OkStatus();
  const std::string name = options_->name_process();
  if (name.empty()) return absl::OkStatus();
  named_ = true;
  std::string json = R"({"process_name":)";
  AppendJson(name, &json);
  return log->AppendMetadata(json + "}");
}

void Recorder::TellProcessName() {
  OrStop([this] {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!finished_ && OwnsLog()) WriteProcessName(log_.get()).IgnoreError();
  });
}

ThreadRecorder* Recorder::ThisThread() {
  ThreadHolder& holder = t_holder;
  if (holder.thread != nullptr || holder.ended || stopped()) return holder.thread;
  auto* const thread = new (std::nothrow) ThreadRecorder(this);
  if (thread == nullptr) {
    Stop(kNoMemory);
    return nullptr;
  }
  thread->os_id_ = static_cast<uint64_t>(syscall(SYS_gettid));
  thread_count_.fetch_add(1, std::memory_order_relaxed);
  return holder.thread = thread;
}

void Recorder::TellClockAgain() {
  const ClockReading now = ReadClock();
  if (now.monotonic_ns < next_clock_ns_) return;
  next_clock_ns_ = origin_ns_ + 10 * (now.monotonic_ns - origin_ns_);
  log_->AppendMetadata(
          absl::StrCat(R"({"clock_again":{"units":)", now.units, R"(,"monotonic_ns":)", now.monotonic_ns, "}}"))
      .IgnoreError();
}

uint64_t Recorder::RoomFor(uint64_t least, uint64_t most) {
  const uint64_t max_size = options_->recording.max_size;
  if (max_size == 0) return most;
  const std::string& folder = options_->log_folder;
  // Metadata count too, as soon as they are there.
  const uint64_t grown = log_->bytes() - std::exchange(told_bytes_, log_->bytes());
  const uint64_t used = SessionState::AddLogBytes(folder, grown, log_->bytes());
  if (used + least > max_size) return 0;
  const uint64_t room = std::min(most, max_size - used);
  // Other processes may have taken it by now.
  if (SessionState::AddLogBytes(folder, room, log_->bytes() + room) > max_size) {
    SessionState::AddLogBytes(folder, -room, 0);
    return 0;
  }
  told_bytes_ += room;
  return room;
}

CallCount* Recorder::CountCall(ThreadRecorder* thread, std::string_view config, uint32_t identity_bytes) {
  const std::string_view api = ReadConfigHead(config).api;
  const std::string schema = NewSchema(api);
  std::string failure;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (thread->session_ != session_ || finished_ || over_) return nullptr;
    absl::Status status = NeedLog();
    if (CallCount* const known = status.ok() ? counter_->Find(config) : nullptr) {
      known->fetch_add(1, std::memory_order_relaxed);
      return known;
    }
    if (status.ok() && !schema.empty()) status = log_->AppendMetadata(SchemaJson(api, schema));
    if (status.ok() && !counter_->Fits(config)) {
      const uint64_t bytes = std::max<uint64_t>(CountWriter::BytesOf(config), kCountsFrameBytes - sizeof(FrameHeader));
      absl::StatusOr<Frame> frame = log_->Reserve(FrameType::kCounts, static_cast<uint32_t>(bytes));
      if (frame.ok()) counter_->Continue(*frame);
      status = frame.status();
    }
    if (status.ok()) return counter_->Add(config, identity_bytes);
    failure = std::string(status.message());
  }
  Stop(failure);
  return nullptr;
}

bool Recorder::TakeFrame(ThreadRecorder* thread, uint64_t bytes, bool entering) {
  bytes += 2 * CallWriter::kMaxRecordOverhead + kThreadNameBytes + thread->TagBytes();
  std::string failure;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // Another session may have begun since the thread checked.
    if (thread->session_ != session_ || finished_ || over_) return false;
    if (options_->goes_on != nullptr && !options_->goes_on()) {
      over_ = true;
      NewEpoch();
      return false;
    }
    failure = std::string(NeedLog().message());
    for (size_t i = 0; i < free_frames_.size() && failure.empty();) {
      CallWriter& writer = free_frames_[i].writer;
      if (!writer.Fits(std::min(bytes, kSpareFrameBytes + thread->TagBytes()))) {
        // Nobody will find room in it.
        LogWriter::Close(writer.frame(), writer.calls());
        free_frames_.erase(free_frames_.begin() + static_cast<ptrdiff_t>(i));
        continue;
      }
      if (!writer.Fits(bytes)) {
        ++i;
        continue;
      }
      thread->writer_ = free_frames_[i].writer;
      thread->frame_number_ = free_frames_[i].number;
      free_frames_.erase(free_frames_.begin() + static_cast<ptrdiff_t>(i));
      break;
    }
    if (!thread->writer_.open() && failure.empty()) {
      TellClockAgain();
      const uint32_t grown = std::clamp(2 * thread->next_frame_bytes_, kFirstFrameBytes, options_->max_frame_bytes);
      uint64_t payload = std::max<uint64_t>(grown - sizeof(FrameHeader), bytes);
      const uint64_t least = std::max<uint64_t>(kFirstFrameBytes - sizeof(FrameHeader), bytes);
      const uint64_t room = thread->only_counts_ ? 0 : RoomFor(least, payload);
      thread->only_counts_ = room == 0;
      if (thread->only_counts_ && entering) return false;
      payload = std::max(room, bytes);
      absl::StatusOr<Frame> frame = log_->Reserve(FrameType::kCalls, static_cast<uint32_t>(payload));
      if (frame.ok()) {
        thread->next_frame_bytes_ = grown;
        thread->writer_ = CallWriter(*frame);
        thread->frame_number_ = next_frame_number_++;
      } else {
        failure = std::string(frame.status().message());
      }
    }
  }
  if (!failure.empty()) {
    Stop(failure);
    return false;
  }
  thread->WriteThreadRecord();
  return true;
}

std::string Recorder::NewSchema(std::string_view api) {
  auto* const schema_of = schema_of_.load(std::memory_order_acquire);
  if (schema_of == nullptr || api.find("::") == std::string_view::npos) return {};
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (told_schemas_.contains(api)) return {};
    told_schemas_.emplace(api);
  }
  try {
    return schema_of(api);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // its library was unloaded
    return {};
  }
}

void Recorder::EndThread(ThreadRecorder* thread) {
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    if (finished_ || thread->session_ != session_) return;
    if (ended_threads_.size() < kMostEndedThreads) {
      ended_threads_.emplace_back(thread->number_, thread->totals());
    } else {
      if (!more_ended_threads_.has_value()) more_ended_threads_.emplace();
      more_ended_threads_->Add(thread->totals());
    }
    if (thread->keeps_open_numbers_ && thread->calls_.get() != 0) {
      ended_for_later_[thread->number_] = {thread->calls_.get(), thread->os_id_, thread->name_};
      if (ended_for_later_.size() > kMostEndedThreads) ended_for_later_.erase(ended_for_later_.begin());
    }
    if (!thread->writer_.open()) return;
    free_frames_.push_back({thread->writer_, thread->frame_number_});
    thread->writer_ = CallWriter();
  });
  thread->CloseFrame();
  thread->ClearTables();
  thread_count_.fetch_sub(1, std::memory_order_relaxed);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    threads_.erase(thread);
  }
  delete thread;
}

void Recorder::AddMetadata(const std::string& json) {
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    if (finished_) return;
    added_metadata_.push_back(json);
    if (OwnsLog()) log_->AppendMetadata(json).IgnoreError();
  });
}

void Recorder::AddOwnMetadata(const std::string& json) {
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    if (finished_) return;
    if (log_ == nullptr) {
      own_metadata_.push_back(json);
    } else if (OwnsLog()) {
      log_->AppendMetadata(json).IgnoreError();
    }
  });
}

void Recorder::Note(std::set<std::string> SessionNotes::* list, const std::string& text) {
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    if (finished_ || !(notes_.*list).insert(text).second || !OwnsLog()) return;
    // Written now because the last words after a signal don't contain it.
    log_->AppendMetadata(absl::StrCat("{", NotSeenJson(notes_), "}")).IgnoreError();
  });
}

void Recorder::CountCut(const std::string& what, uint64_t count) {
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    notes_.cut[what] += count;
  });
}

void Recorder::CountLost(const std::string& what, const std::function<std::string()>& why) {
  const bool first = OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    return ++notes_.cut[what] == 1;
  });
  if (!first) return;
  // The other lines are PyTorch's stack trace.
  const std::string error = why();
  NoteNotSeen(absl::StrCat(what, ": ", error.substr(0, error.find('\n')).substr(0, kMaxErrorBytes)));
}

void Recorder::CountStarted(const std::string& program, bool python) {
  OrStop([&] {
    if (follows_) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (python) NoteChild();
      return;
    }
    std::string name = program;
    // The end of a path is more useful than its beginning.
    if (name.size() > kMaxStartedBytes) name = absl::StrCat("...", name.substr(name.size() - kMaxStartedBytes));
    std::lock_guard<std::mutex> lock(mutex_);
    if (finished_) return;
    if (notes_.started.size() >= kMaxStarted && !notes_.started.contains(name)) {
      name = kOtherStarted;
      python = false;
    }
    StartedTotals& started = notes_.started[name];
    started.python = started.python || python;
    if (python) NoteChild();
    // This may be the process's last action, so record a new program right away; its count follows at the end.
    if (++started.count != 1) return;
    if ((log_ == nullptr && !OpenLog().ok()) || !OwnsLog()) return;
    log_->AppendMetadata(absl::StrCat("{", StartedJson(notes_.started), "}")).IgnoreError();
  });
}

void Recorder::Stop(std::string_view reason) {
  if (stopped_.exchange(true)) return;
  SessionState::epoch_ = 0;
  // An empty reason means none, but an exception's text may be empty.
  if (reason.empty()) reason = "an exception without a text";
  stop_reason_bytes_.store(reason.copy(stop_reason_, sizeof stop_reason_), std::memory_order_release);
  if (quiet() || !standard_error_.IsTheSame()) return;
  const std::string_view line[] = {"torchtrace: tracing stopped: ", stop_reason(), "; the program goes on\n"};
  iovec parts[std::size(line)];
  for (size_t i = 0; i < std::size(line); ++i) parts[i] = {const_cast<char*>(line[i].data()), line[i].size()};
  if (WriteWithoutSignal(STDERR_FILENO, parts, std::size(parts)) < 0) {
    // There is no other place to print it.
  }
}

bool Recorder::RecoverFrame(const void* address) {
  if (SessionState::RecoverControlPage(address)) return true;
  if (!MapZerosOverFrame(address)) return false;
  Recorder* const recorder = Get();
  if (recorder == nullptr) return true;
  if (getpid() == recorder->pid_) {
    recorder->Stop("the log was cut by another program, or its disk is gone");
  } else {
    recorder->StopInStrayFork();
  }
  return true;
}

void Recorder::StopInStrayFork() {
  // This happens again at the next frame; count it once.
  if (!stopped()) CountForkWithoutLog();
  Stop("the process was forked without the C library's fork handlers");
}

LastWords Recorder::WordsOf(const ProgramEnd& end) const {
  LastWords words{end,
                  {ended_threads_.begin(), ended_threads_.end()},
                  more_ended_threads_,
                  notes_,
                  intern_resets_.load(),
                  counter_ == nullptr ? 0 : counter_->calls(),
                  stop_reason(),
                  steps_};
  for (const ThreadRecorder* thread : threads_) {
    words.threads[thread->number_] = thread->totals();
  }
  const uint32_t without_log = forked_ || g_forks_without_log == nullptr ? 0 : g_forks_without_log->load();
  if (without_log != 0) {
    words.notes.not_seen.insert(absl::StrCat("the calls of ",
                                             Counted(without_log, "forked process", "forked processes"),
                                             ": no log could be created there"));
  }
  return words;
}

bool Recorder::WriteEnd(std::string_view json) {
  if (json.size() > end_frame_.payload_bytes()) return log_->AppendMetadata(json).ok();
  Fill(end_frame_, json);
  return true;
}

void Recorder::WriteLastWords(const ProgramEnd& end) {
  try {
    // Leaves out the threads if there are more than the reserved frame has room for, and the disk is full.
    const LastWords words = WordsOf(end);
    if (WriteEnd(FormatLastWords(words, true)) || WriteEnd(FormatLastWords(words, false))) return;
  } catch (const std::exception&) {
    // Out of memory.
  }
  char json[kShortEndBytes];
  WriteEnd({json, FormatShortLastWords(end, stop_reason(), steps_, json, sizeof json)});
}

void Recorder::NoteStepsThatNeverCame() {
  const std::string& wanted = options_->recording.steps;
  if (!step_window_.has_value() || wanted.empty() || step_window_->admitted_any()) return;
  OrStop([&] {
    const StepWindow::Place last = StepNow();
    const bool open_which = last.kind == StepKind::kStep && step_kind_ == StepKind::kForward;
    notes_.steps_not_seen =
        absl::StrCat("steps ", wanted, ": the program ",
                     last.number == 0 ? "had no steps" : absl::StrCat("ended in step ", last.name),
                     open_which ? ", as no optimizer stepped (--step-on forward counts calls of modules)" : "");
    return true;
  });
}

void Recorder::KeepLater(const EnteredCall& call, LaterOf of, std::string_view notes) {
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!finished_ && call.session == session_) kept_.push_back({call, of, std::string(notes)});
  });
}

// Each thread's part has no calls, and is the thread's last: readers find in it how many calls came before.
void Recorder::WriteKept() {
  std::vector<KeptLater> kept;
  kept.swap(kept_);
  std::stable_sort(kept.begin(), kept.end(),
                   [](const KeptLater& a, const KeptLater& b) { return a.call.thread < b.call.thread; });
  std::map<uint64_t, ThreadForLater> threads = std::exchange(ended_for_later_, {});
  for (const ThreadRecorder* thread : threads_) {
    if (thread->session_ != session_) continue;
    threads[thread->number_] = {thread->calls_.get(), thread->os_id_, thread->name_};
  }
  std::vector<std::pair<uint64_t, LaterNotes>> records;  // by thread
  uint64_t bytes = 0;
  for (const KeptLater& later : kept) {
    const auto thread = threads.find(later.call.thread);
    const uint64_t calls = thread == threads.end() ? 0 : thread->second.calls;
    const uint64_t since = calls - 1 - later.call.call;
    if (since >= std::min(kRecentCalls, calls)) continue;
    records.emplace_back(later.call.thread, LaterNotes{since, later.of, later.notes});
    bytes += 2 * CallWriter::kMaxRecordOverhead + kThreadNameBytes + later.notes.size();
  }
  if (bytes == 0 || bytes > UINT32_MAX / 2 || RoomFor(bytes, bytes) == 0) records.clear();
  if (records.size() < kept.size()) notes_.cut[kLostLater] += kept.size() - records.size();
  if (records.empty()) return;
  const absl::StatusOr<Frame> frame = log_->Reserve(FrameType::kCalls, static_cast<uint32_t>(bytes));
  if (!frame.ok()) {
    notes_.cut[kLostLater] += records.size();
    return;
  }
  CallWriter writer(*frame);
  std::optional<uint64_t> last;
  for (const auto& [number, later] : records) {
    if (std::exchange(last, number) != number) {
      const ThreadForLater& thread = threads.at(number);
      writer.Thread(number, thread.os_id, ClockNow(), thread.calls, 0, thread.name);
    }
    writer.Later(later);
  }
  LogWriter::Close(*frame, 0);
}

void Recorder::SetEndError(const char* message) {
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    if (end_error_.empty()) end_error_ = message;
  });
}

std::string Recorder::end_error() {
  std::lock_guard<std::mutex> lock(mutex_);
  return end_error_;
}

int Recorder::ExitCode(int of_program) {
  std::lock_guard<std::mutex> lock(mutex_);
  return of_program == 0 && !end_error_.empty() ? 1 : of_program;
}

void Recorder::Finish(const ProgramEnd& of_program) {
  if (auto* const before = before_finish_.load(std::memory_order_acquire)) {
    OrStop([before] {
      before();
      return true;
    });
  }
  ProgramEnd end = of_program;
  end.exit_code = ExitCode(end.exit_code);
  ThreadRecorder* const own = t_holder.thread;
  std::lock_guard<std::mutex> lock(mutex_);
  if (finished_.exchange(true)) return;
  stopped_ = true;
  SessionState::session_ = 0;
  NewEpoch();
  SessionState::UnmapControlPage();
  // A forked or started child that made no call needs no log.
  if (log_ == nullptr) return;
  if (own != nullptr) own->CloseFrame();
  for (FreeFrame& frame : free_frames_) LogWriter::Close(frame.writer.frame(), frame.writer.calls());
  free_frames_.clear();
  OrStop([this] {
    WriteStepEnds();
    WriteKept();
    return true;
  });
  NoteStepsThatNeverCame();
  WriteLastWords(end);
  LogWriter::Close(std::exchange(end_frame_, Frame()), 0);
  log_.reset();
  // Its frames are closed when no thread may count any more.
  counter_.reset();
  if (own != nullptr) own->counter_.reset();
}

void Recorder::FinishShort(const ProgramEnd& end) {
  // No lock: the signal may have come while this thread held it.
  if (finished_ || end_frame_.header == nullptr || getpid() != pid_ || finished_.exchange(true)) return;
  stopped_ = true;
  SessionState::epoch_ = 0;
  char json[kShortEndBytes];
  // Read without the lock, too: at worst the last step's end is another's.
  Fill(end_frame_, {json, FormatShortLastWords(end, stop_reason(), steps_, json, sizeof json)});
  LogWriter::Seal(end_frame_, 0);
}

std::string Recorder::EnvironmentNow() const {
  return options_ != nullptr && options_->fork_metadata != nullptr ? options_->fork_metadata() : "";
}

void Recorder::NoteChild() {
  if (!finished_ && !before_children_.has_value()) before_children_ = EnvironmentNow();
}

bool Recorder::OwnsEnvironment() {
  std::lock_guard<std::mutex> lock(mutex_);
  return !before_children_.has_value() || *before_children_ == EnvironmentNow();
}

// A fork copies only the forking thread: a lock that another thread holds would stay locked in the child for ever.
void Recorder::BeforeFork() {
  Get()->mutex_.lock();
  Get()->NoteChild();
}

void Recorder::AfterForkInParent() { Get()->mutex_.unlock(); }

// The parent's frames are not mapped in the child (see LogWriter::Reserve), its objects must not be touched, and
// allocating isn't safe, as other threads may have held the allocator's locks. So forget, and leak.
void Recorder::AfterForkInChild() {
  Recorder* const recorder = Get();
  ForgetMappedFrames();
  static_cast<void>(recorder->log_.release());
  recorder->end_frame_ = Frame();
  recorder->free_frames_.clear();
  ThreadRecorder* const own = t_holder.thread;
  auto own_entry = recorder->threads_.extract(own);  // empty unless the thread recorded in this session
  recorder->threads_.clear();
  recorder->kept_.clear();
  recorder->ended_threads_.clear();
  recorder->ended_for_later_.clear();
  recorder->more_ended_threads_.reset();
  recorder->told_schemas_.clear();
  recorder->notes_.not_seen.clear();
  recorder->notes_.steps_not_seen.clear();
  recorder->notes_.not_imported.clear();
  recorder->notes_.cut.clear();
  recorder->notes_.started.clear();
  recorder->end_error_.clear();
  recorder->next_thread_ = 0;
  recorder->parent_pid_ = recorder->pid_;
  recorder->forked_ = true;
  recorder->named_ = false;
  if (recorder->window_ != nullptr) recorder->window_->Begin();
  if (recorder->counter_ != nullptr) recorder->counter_->Forget();
  // It may be an earlier session's.
  if (own != nullptr && own->counter_ != nullptr) own->counter_->Forget();
  recorder->told_bytes_ = 0;
  recorder->had_log_ = false;
  recorder->before_children_.reset();
  recorder->was_paused_ = recorder->paused_;
  recorder->held_ = false;
  // The child's steps are its own, but for those that it inherits as a tag.
  for (const StepKind kind : {StepKind::kForward, StepKind::kStep}) recorder->steps_.at(kind) = StepMark();
  recorder->step_ends_.clear();
  if (recorder->step_kind_ == StepKind::kStep) recorder->step_kind_ = StepKind::kForward;
  if (recorder->step_window_.has_value()) {
    recorder->step_window_->Begin();
    recorder->step_window_->Move(recorder->StepNow(), /*recorded=*/false);
  }
  ++recorder->tags_version_;
  recorder->NewEpoch();
  if (recorder->stopped()) recorder->finished_ = true;
  recorder->thread_count_ = 0;
  if (own != nullptr) {
    own->writer_ = CallWriter();
    own->frame_number_ = 0;
    own->open_numbers_.clear();
    own->marked_.clear();
    own->ForgetWaitingScopes();
    // The tables know what was counted of the parent's calls: sightings, stacks, notes.
    own->ClearTables();
    own->os_id_ = static_cast<uint64_t>(syscall(SYS_gettid));
    recorder->thread_count_ = 1;
    if (own->session_ == recorder->session_) {
      own->next_frame_bytes_ = 0;
      own->calls_.Set(0);
      own->getters_.Set(0);
      own->left_out_.Set(0);
      own->number_ = recorder->next_thread_++;
      recorder->threads_.insert(std::move(own_entry));
    }
  }
  recorder->intern_bytes_ = 0;
  recorder->mutex_.unlock();
}

}  // namespace torchtrace
