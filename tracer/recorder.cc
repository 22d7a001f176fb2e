#include "tracer/recorder.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/config.h"
#include "serialize/glob.h"
#include "tracer/runtime_api.h"

namespace torchtrace {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kFirstFrameBytes = 64 << 10;
constexpr uint32_t kThreadNameBytes = 64;
constexpr uint32_t kEndFrameBytes = 32 << 10;
// Of programs that were started: so many are told apart, by names of at most so many bytes.
constexpr size_t kMaxStarted = 20;
constexpr size_t kMaxStartedBytes = 300;
constexpr char kOtherStarted[] = "others";

Recorder* g_recorder = nullptr;

std::string ThreadName() {
  char name[kThreadNameBytes] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  return name;
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <typename Programs>
Json ListStarted(const Programs& programs) {
  Json list = Json::array();
  for (const auto& [program, started] : programs) {
    list.push_back({{"program", program}, {"python", started.python}, {"count", started.count}});
  }
  return list;
}

// Stores a metadata frame's payload and seals it without unmapping: all that a
// signal handler may do.
void Seal(Frame frame, std::string_view json) {
  std::memcpy(frame.payload(), json.data(), json.size());
  frame.header->committed_bytes = static_cast<uint32_t>(json.size());
  LogWriter::Seal(frame, 0);
}

}  // namespace

// The calling thread's recorder, given back when the thread ends.
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

// ---- ThreadRecorder ----

void ThreadRecorder::Raise(std::string_view exception) {
  if (!OwnsInnermostCall()) return;
  const uint64_t bytes = CallWriter::kMaxRecordOverhead + exception.size();
  const bool fits = writer_.Fits(bytes) || NextFrame(bytes);
  --open_calls_;
  if (fits) writer_.Raise(ClockNow(), exception);
}

void ThreadRecorder::BeginSession(uint64_t session, uint64_t number) {
  CloseFrame();
  stale_calls_ += std::exchange(open_calls_, 0);
  session_ = session;
  number_ = number;
  calls_ = 0;
  getters_ = 0;
  next_frame_bytes_ = 0;
  tags_version_ = 0;
  tags_.clear();
  stacks_wanted_ = recorder_->options().stacks;
  stack_ = stacks_wanted_ == 0 ? nullptr : recorder_->options().make_stack();
  // Which entries are left out is the session's affair.
  recorder_->intern_bytes_.fetch_sub(table_.bytes(), std::memory_order_relaxed);
  table_.Clear();
}

bool ThreadRecorder::CatchUp() {
  if (Recorder::epoch_.load(std::memory_order_acquire) == 0) return false;
  {
    std::lock_guard<std::mutex> lock(recorder_->mutex_);
    const uint64_t epoch = Recorder::epoch_.load(std::memory_order_relaxed);
    if (epoch == 0) return false;
    if (session_ != recorder_->session_) {
      BeginSession(recorder_->session_, recorder_->next_thread_++);
      recorder_->threads_.insert(this);
    }
    epoch_ = epoch;
    if (tags_version_ == recorder_->tags_version_) return true;
    tags_version_ = recorder_->tags_version_;
    tags_ = recorder_->tags_;
  }
  // Where the frame has no room, the next one starts with them.
  if (!writer_.open()) return true;
  if (!writer_.Fits(CallWriter::kMaxRecordOverhead + tags_.size())) {
    CloseFrame();
  } else {
    writer_.Tags(tags_);
  }
  return true;
}

InternTable::Entry* ThreadRecorder::Intern(uint64_t hash, std::string_view config, uint32_t identity_bytes) {
  // Forgetting is safe at any time: a definition holds for one frame, and a
  // configuration that comes again is described again.
  if (recorder_->intern_bytes_.load(std::memory_order_relaxed) > recorder_->options().max_intern_bytes) {
    recorder_->intern_bytes_.fetch_sub(table_.bytes(), std::memory_order_relaxed);
    recorder_->intern_resets_.fetch_add(1, std::memory_order_relaxed);
    table_.Clear();
  }
  const uint64_t before = table_.bytes();
  InternTable::Entry* const entry = table_.Insert(hash, config, identity_bytes);
  recorder_->intern_bytes_.fetch_add(table_.bytes() - before, std::memory_order_relaxed);
  if (!recorder_->Included(ReadConfigHead(config).api)) entry->definition = kExcluded;
  return entry;
}

bool ThreadRecorder::Prepare(InternTable::Entry* entry) {
  if (entry->definition == kExcluded || recorder_->stopped()) return false;
  const bool takes_stack = entry->stacks < stacks_wanted_;
  RecordedPlace* const stack = takes_stack ? stack_->Take() : nullptr;
  const uint64_t bytes = CallWriter::kMaxRecordOverhead + CallWriter::kMaxEventBytes + entry->config_bytes;
  const bool defined = entry->defined_in == frame_number_ && frame_number_ != 0;
  if (!writer_.Fits((defined ? CallWriter::kMaxEventBytes : bytes) + StackBytes(stack, frame_number_)) &&
      !NextFrame(bytes + StackBytes(stack, 0))) {
    return false;
  }
  if (entry->defined_in != frame_number_) {
    entry->definition = static_cast<uint32_t>(writer_.Define(entry->identity(), entry->facets()));
    entry->defined_in = frame_number_;
  }
  entry->frame = frame_number_;
  if (takes_stack) {
    if (stack != nullptr) WriteStack(stack);
    if (stacks_wanted_ != kAllStacks) ++entry->stacks;
    // The next one's is wanted too: Enter has to ask.
    if (entry->stacks < stacks_wanted_) entry->frame = 0;
  }
  return true;
}

uint64_t ThreadRecorder::StackBytes(const RecordedPlace* stack, uint32_t frame) {
  if (stack == nullptr) return 0;
  uint64_t bytes = CallWriter::kMaxPlaceBytes;
  for (const RecordedPlace* at = stack; at != nullptr; at = at->caller) {
    if (frame != 0 && at->written.frame == frame) break;
    bytes += CallWriter::kMaxPlaceBytes;
    const RecordedCode& code = *at->code;
    if (frame != 0 && code.written.frame == frame) continue;
    bytes += CallWriter::kMaxRecordOverhead + code.file.size() + code.function.size() + code.module.size();
  }
  return bytes;
}

void ThreadRecorder::WriteStack(RecordedPlace* stack) {
  unwritten_.clear();
  RecordedPlace* known = stack;
  for (; known != nullptr && known->written.frame != frame_number_; known = known->caller) unwritten_.push_back(known);
  uint64_t caller = known == nullptr ? 0 : known->written.number + 1;
  for (; !unwritten_.empty(); unwritten_.pop_back()) {
    RecordedPlace& place = *unwritten_.back();
    RecordedCode& code = *place.code;
    if (code.written.frame != frame_number_) {
      code.written = {frame_number_, writer_.Code(code.library, code.file, code.function, code.module)};
    }
    place.written = {frame_number_, writer_.Place(code.written.number, place.line, caller)};
    caller = place.written.number + 1;
  }
  writer_.Stack(caller - 1);
}

bool ThreadRecorder::NextFrame(uint64_t bytes) {
  if (recorder_->stopped()) return false;
  CloseFrame();
  return recorder_->TakeFrame(this, bytes);
}

void ThreadRecorder::CloseFrame() {
  if (!writer_.open()) return;
  LogWriter::Close(writer_.frame(), writer_.calls());
  writer_ = CallWriter();
  frame_number_ = 0;
}

void ThreadRecorder::WriteThreadRecord() {
  writer_.Thread(number_, os_id_, ClockNow(), calls_, open_calls_, ThreadName());
  if (!tags_.empty()) writer_.Tags(tags_);
}

// ---- Recorder ----

std::atomic<uint64_t> Recorder::epoch_{0};
std::atomic<uint64_t> Recorder::session_on_{0};

absl::Status Recorder::Start(RecorderOptions options) {
  if (g_recorder != nullptr) return g_recorder->Begin(std::move(options));
  auto* const recorder = new Recorder();
  recorder->unit_ns_ = CalibrateClock();
  if (absl::Status status = recorder->Begin(std::move(options)); !status.ok()) {
    delete recorder;
    return status;
  }
  g_recorder = recorder;
  pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  return absl::OkStatus();
}

absl::Status Recorder::Begin(RecorderOptions options) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!finished_) return absl::FailedPreconditionError("recording has started already");
  options_.store(new RecorderOptions(std::move(options)), std::memory_order_release);
  log_.reset();
  end_frame_ = Frame();
  free_frames_.clear();
  threads_.clear();
  ended_threads_.clear();
  added_metadata_.clear();
  not_seen_.clear();
  cut_.clear();
  started_.clear();
  stop_reason_.clear();
  intern_resets_ = 0;
  next_thread_ = 0;
  parent_pid_ = 0;
  forked_ = false;
  if (absl::Status status = OpenLog("main"); !status.ok()) return status;
  paused_ = this->options().paused;
  tags_ = this->options().tags == "{}" ? "" : this->options().tags;
  ++tags_version_;
  ++session_;
  finished_ = false;
  stopped_ = false;
  session_on_ = session_;
  NewEpoch();
  return absl::OkStatus();
}

void Recorder::NewEpoch() {
  const bool recording = !finished_ && !paused_ && !stopped();
  epoch_.store(recording ? ++last_epoch_ : 0, std::memory_order_release);
}

void Recorder::SetPaused(bool paused) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(paused_, paused) != paused) NewEpoch();
}

bool Recorder::paused() {
  std::lock_guard<std::mutex> lock(mutex_);
  return paused_;
}

void Recorder::SetTags(const std::string& json) {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::string tags = json == "{}" ? "" : json;
  if (tags == tags_) return;
  tags_ = tags;
  ++tags_version_;
  NewEpoch();
}

Recorder* Recorder::Get() { return g_recorder; }

absl::Status Recorder::OpenLog(const char* role) {
  pid_ = getpid();
  absl::StatusOr<std::unique_ptr<LogWriter>> log;
  // A process id can come again within one run.
  for (int attempt = 1; attempt < 1000; ++attempt) {
    const std::string again = attempt == 1 ? "" : absl::StrCat("-", attempt);
    const std::string path = absl::StrCat(options().log_folder, "/", role, "-", pid_, again, ".ttlog");
    log = LogWriter::Create(path, options().readable ? 0666 : 0600);
    if (log.ok() || access(path.c_str(), F_OK) != 0) break;
  }
  if (!log.ok()) return log.status();

  Json metadata = Json::parse(options().metadata_json, nullptr, false);
  if (!metadata.is_object()) metadata = Json::object();
  metadata["role"] = role;
  metadata["pid"] = pid_;
  metadata["ppid"] = getppid();
  if (parent_pid_ != 0) metadata["forked_from"] = parent_pid_;
  timespec realtime;
  clock_gettime(CLOCK_REALTIME, &realtime);
  metadata["clock"] = {{"unit_ns", unit_ns_},
                       {"origin_units", ClockNow()},
                       {"origin_monotonic_ns", MonotonicNs()},
                       {"origin_realtime_ns", int64_t{realtime.tv_sec} * 1'000'000'000 + realtime.tv_nsec}};
  if (absl::Status status = (*log)->AppendMetadata(Dump(metadata)); !status.ok()) return status;
  for (const std::string& json : added_metadata_) {
    if (absl::Status status = (*log)->AppendMetadata(json); !status.ok()) return status;
  }
  for (const std::string& json : own_metadata_) {
    if (absl::Status status = (*log)->AppendMetadata(json); !status.ok()) return status;
  }
  own_metadata_.clear();
  absl::StatusOr<Frame> end = (*log)->Reserve(FrameType::kMetadata, kEndFrameBytes);
  if (!end.ok()) return end.status();
  log_ = std::move(*log);
  end_frame_ = *end;
  return absl::OkStatus();
}

ThreadRecorder* Recorder::ThisThread() {
  ThreadHolder& holder = t_holder;
  if (holder.thread != nullptr || holder.ended || stopped()) return holder.thread;
  auto* const thread = new ThreadRecorder(this);
  thread->os_id_ = static_cast<uint64_t>(syscall(SYS_gettid));
  return holder.thread = thread;
}

bool Recorder::TakeFrame(ThreadRecorder* thread, uint64_t bytes) {
  bytes += 2 * CallWriter::kMaxRecordOverhead + kThreadNameBytes + thread->tags_.size();
  std::string failure;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // Another session has begun since the thread looked.
    if (thread->session_ != session_ || finished_) return false;
    if (log_ == nullptr) {  // a forked child's first call
      if (absl::Status status = OpenLog("fork"); !status.ok()) failure = std::string(status.message());
    }
    for (size_t i = 0; i < free_frames_.size() && failure.empty(); ++i) {
      if (!free_frames_[i].writer.Fits(bytes)) continue;
      thread->writer_ = free_frames_[i].writer;
      thread->frame_number_ = free_frames_[i].number;
      free_frames_.erase(free_frames_.begin() + static_cast<ptrdiff_t>(i));
      break;
    }
    if (!thread->writer_.open() && failure.empty()) {
      const uint32_t grown = std::clamp(2 * thread->next_frame_bytes_, kFirstFrameBytes, options().max_frame_bytes);
      const uint64_t payload = std::max<uint64_t>(grown - sizeof(FrameHeader), bytes);
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

void Recorder::EndThread(ThreadRecorder* thread) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const bool in_session = !finished_ && thread->session_ == session_;
    if (thread->writer_.open()) {
      if (in_session) {
        free_frames_.push_back({thread->writer_, thread->frame_number_});
      } else {
        thread->CloseFrame();
      }
    }
    if (in_session) ended_threads_[thread->number_] = {thread->calls_, thread->getters_};
    threads_.erase(thread);
  }
  intern_bytes_.fetch_sub(thread->table_.bytes(), std::memory_order_relaxed);
  delete thread;
}

bool Recorder::Included(std::string_view api) const {
  const RecorderOptions& options = this->options();
  const auto matches = [&](const std::string& glob) { return GlobMatch(glob, api); };
  if (std::any_of(options.exclude.begin(), options.exclude.end(), matches)) return false;
  return options.include.empty() || std::any_of(options.include.begin(), options.include.end(), matches);
}

void Recorder::AddMetadata(const std::string& json) {
  std::lock_guard<std::mutex> lock(mutex_);
  added_metadata_.push_back(json);
  if (log_ != nullptr && !finished_) log_->AppendMetadata(json).IgnoreError();
}

void Recorder::AddOwnMetadata(const std::string& json) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (log_ == nullptr) {
    own_metadata_.push_back(json);
  } else if (!finished_) {
    log_->AppendMetadata(json).IgnoreError();
  }
}

void Recorder::NoteNotSeen(const std::string& text) {
  std::lock_guard<std::mutex> lock(mutex_);
  not_seen_.insert(text);
}

void Recorder::CountCut(const std::string& what, uint64_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  cut_[what] += count;
}

void Recorder::CountStarted(const std::string& program, bool python) {
  std::string name = program;
  // The end of a path tells more than its beginning.
  if (name.size() > kMaxStartedBytes) name = absl::StrCat("...", name.substr(name.size() - kMaxStartedBytes));
  std::lock_guard<std::mutex> lock(mutex_);
  if (finished_) return;
  if (started_.size() >= kMaxStarted && !started_.contains(name)) {
    name = kOtherStarted;
    python = false;
  }
  StartedProgram& started = started_[name];
  started.python = started.python || python;
  // It may be the last that this process does: what is new is told at once, how often at the end.
  if (++started.count != 1) return;
  if (log_ == nullptr && !OpenLog("fork").ok()) return;
  log_->AppendMetadata(Dump({{"started_programs", ListStarted(started_)}})).IgnoreError();
}

void Recorder::Stop(const std::string& reason) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_.exchange(true)) return;
    stop_reason_ = reason;
    NewEpoch();
  }
  if (options().quiet || !standard_error_.IsTheSame()) return;
  const std::string line = absl::StrCat("torchtrace: tracing stopped: ", reason, "; the program goes on\n");
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) {
    // There is no other place to say it.
  }
}

std::string Recorder::EndJson(const ProgramEnd& end) {
  Json json = Json::object();
  if (end.program_goes_on) {
    json["program_goes_on"] = true;
  } else if (end.signal != 0) {
    json["signal"] = end.signal;
  } else {
    json["exit_code"] = end.exit_code;
  }
  json["units"] = ClockNow();
  json["monotonic_ns"] = MonotonicNs();
  std::map<uint64_t, ThreadTotals> totals = ended_threads_;
  for (const ThreadRecorder* thread : threads_) totals[thread->number_] = {thread->calls_, thread->getters_};
  uint64_t getters = 0;
  Json threads = Json::array();
  for (const auto& [number, total] : totals) {
    threads.push_back({{"number", number}, {"calls", total.calls}, {"getters", total.getters}});
    getters += total.getters;
  }
  json["threads"] = std::move(threads);
  json["getters"] = getters;
  json["not_seen"] = not_seen_;
  if (!cut_.empty()) json["cut"] = cut_;
  if (const uint64_t resets = intern_resets_.load()) json["intern_resets"] = resets;
  if (!stop_reason_.empty()) json["stopped"] = stop_reason_;
  if (!started_.empty()) json["started_programs"] = ListStarted(started_);
  return Dump({{"end", std::move(json)}});
}

void Recorder::Finish(const ProgramEnd& end) {
  ThreadRecorder* const own = t_holder.thread;
  std::lock_guard<std::mutex> lock(mutex_);
  if (finished_) return;
  finished_ = true;
  stopped_ = true;
  session_on_ = 0;
  NewEpoch();
  if (log_ == nullptr) return;  // a forked child that called nothing
  if (own != nullptr) own->CloseFrame();
  for (FreeFrame& frame : free_frames_) LogWriter::Close(frame.writer.frame(), frame.writer.calls());
  free_frames_.clear();
  const std::string json = EndJson(end);
  if (json.size() <= end_frame_.payload_bytes()) {
    Seal(end_frame_, json);
  } else {
    log_->AppendMetadata(json).IgnoreError();
  }
}

void Recorder::FinishFromSignal(int signal) {
  // No lock: the signal may have come while this thread held it.
  if (finished_ || end_frame_.header == nullptr || getpid() != pid_) return;
  finished_ = true;
  stopped_ = true;
  epoch_ = 0;
  char json[160];
  const int bytes =
      snprintf(json, sizeof json, R"({"end":{"signal":%d,"units":%llu,"monotonic_ns":%llu}})", signal,
               static_cast<unsigned long long>(ClockNow()), static_cast<unsigned long long>(MonotonicNs()));
  Seal(end_frame_, std::string_view(json, static_cast<size_t>(bytes)));
}

// A fork copies only the forking thread; whoever holds the lock elsewhere would
// hold it for ever in the child.
void Recorder::BeforeFork() { g_recorder->mutex_.lock(); }

void Recorder::AfterForkInParent() { g_recorder->mutex_.unlock(); }

// The parent's frames are not mapped in the child (see LogWriter::Reserve), its
// objects must not be touched, and nothing may be allocated for sure: other
// threads may have held the allocator's locks. So forget, and leak.
void Recorder::AfterForkInChild() {
  Recorder* const recorder = g_recorder;
  static_cast<void>(recorder->log_.release());
  recorder->end_frame_ = Frame();
  recorder->free_frames_.clear();
  recorder->threads_.clear();
  recorder->ended_threads_.clear();
  recorder->not_seen_.clear();
  recorder->cut_.clear();
  recorder->started_.clear();
  recorder->next_thread_ = 0;
  recorder->parent_pid_ = recorder->pid_;
  recorder->forked_ = true;
  recorder->finished_ = recorder->finished_ || recorder->stopped();
  if (ThreadRecorder* const thread = t_holder.thread; thread != nullptr) {
    thread->writer_ = CallWriter();
    thread->frame_number_ = 0;
    thread->os_id_ = static_cast<uint64_t>(syscall(SYS_gettid));
    if (thread->session_ == recorder->session_) {
      thread->next_frame_bytes_ = 0;
      thread->calls_ = 0;
      thread->getters_ = 0;
      thread->number_ = recorder->next_thread_++;
      recorder->threads_.insert(thread);
    }
  }
  recorder->mutex_.unlock();
}

}  // namespace torchtrace
