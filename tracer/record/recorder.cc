#include "tracer/record/recorder.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "serialize/base/matching.h"
#include "serialize/base/text.h"
#include "serialize/log/log_writer.h"
#include "serialize/model/config.h"
#include "tracer/record/standard_error.h"

namespace torchtrace {
namespace {

constexpr uint32_t kFirstFrameBytes = 64 << 10;
constexpr uint32_t kEndFrameBytes = 32 << 10;
// For the short last words, whose size is bounded.
constexpr size_t kShortEndBytes = 2 << 10;
// When the clock is first recorded again; then each time ten times later.
constexpr uint64_t kFirstClockNs = 10'000'000;
// How many started programs are listed, and the most bytes of their names.
constexpr size_t kMaxStarted = 20;
constexpr size_t kMaxStartedBytes = 300;
constexpr char kOtherStarted[] = "others";
constexpr size_t kMaxErrorBytes = 300;

// Recording was paused for some time.
constexpr char kPaused[] = R"({"paused":true})";

constexpr char kNoMemory[] = "no memory is left to record with";

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

std::string SystemThreadName() {
  char name[kThreadNameBytes] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  return name;
}

// JSON is written by hand here: the library's destructors allocate, which ends the process if memory has run out.
// Bytes that aren't UTF-8 become U+FFFD.
void AppendJson(std::string_view text, std::string* json) {
  json->push_back('"');
  while (!text.empty()) {
    const Utf8Char c = DecodeUtf8(text);
    if (c.kind != Utf8Char::kScalar) {
      json->append("\uFFFD");
    } else if (c.code_point < ' ' || c.code_point == '"' || c.code_point == '\\') {
      absl::StrAppend(json, "\\u", absl::Hex(c.code_point, absl::kZeroPad4));
    } else {
      json->append(text.substr(0, c.bytes));
    }
    text.remove_prefix(c.bytes);
  }
  json->push_back('"');
}

template <typename Texts>
std::string ListNotSeen(const Texts& texts) {
  std::string json = R"("not_seen":[)";
  const char* separator = "";
  for (const std::string& text : texts) {
    json += std::exchange(separator, ",");
    AppendJson(text, &json);
  }
  return json + "]";
}

template <typename Programs>
std::string ListStarted(const Programs& programs) {
  std::string json;
  for (const auto& [program, started] : programs) {
    json += json.empty() ? R"("started_programs":[{"program":)" : R"(,{"program":)";
    AppendJson(program, &json);
    absl::StrAppend(&json, R"(,"python":)", started.python ? "true" : "false", R"(,"count":)", started.count, "}");
  }
  return json + "]";
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

template <typename Body>
std::invoke_result_t<Body> Recorder::OrStop(Body body) {
  // Doesn't catch the exception that ends a thread, which is no std::exception.
  try {
    return body();
  } catch (const std::bad_alloc&) {
    Stop(kNoMemory);
  } catch (const std::exception& error) {
    Stop(error.what());
  }
  return std::invoke_result_t<Body>();
}

// ---- ThreadRecorder ----

void ThreadRecorder::Raise(std::string_view exception) {
  if (scopes_.empty()) return RaiseInnermost(exception);
  EndAmongScopes([&] { RaiseInnermost(exception); });
}

bool ThreadRecorder::IsUpToDate() { return Recorder::epoch_.load(std::memory_order_relaxed) == epoch_ || CatchUp(); }

void ThreadRecorder::OpenScope(uint64_t key, std::string_view config, uint32_t identity_bytes,
                               const CallExtras& extras) {
  const uint64_t now = ClockNow();
  if (!IsUpToDate()) return;
  recorder_->OrStop([&] {
    scopes_.push_back({key, std::string(config), identity_bytes, *extras.facts, std::string(extras.notes), now});
    ++waiting_scopes_;
  });
}

void ThreadRecorder::CloseScope(uint64_t key, bool raised) {
  // A closed scope stays while calls in it are open, and another one may have its key by now.
  const auto find = [&] {
    return std::find_if(scopes_.begin(), scopes_.end(),
                        [&](const Scope& scope) { return scope.key == key && !scope.closed; });
  };
  const auto opened = find();
  if (opened == scopes_.end()) return;
  // Scopes that were opened later may outlive it, and go on waiting.
  const auto later = static_cast<size_t>(scopes_.end() - opened) - 1;
  if (waiting_scopes_ > later) BeginScopes(waiting_scopes_ - later);
  const auto scope = find();
  if (scope == scopes_.end()) return;  // filtered out
  scope->closed = true;
  scope->raised = raised;
  EndClosedScopes();
}

void ThreadRecorder::BeginScopes(size_t count) {
  recorder_->OrStop([&] {
    // Entering a call may begin another session, which forgets all scopes.
    const auto first = scopes_.end() - static_cast<ptrdiff_t>(waiting_scopes_);
    const auto last = first + static_cast<ptrdiff_t>(count);
    std::vector<Scope> beginning(std::make_move_iterator(first), std::make_move_iterator(last));
    scopes_.erase(first, last);
    waiting_scopes_ -= count;
    for (Scope& scope : beginning) {
      if (!EnterAt(scope.time, scope.config, scope.identity_bytes, {&scope.facts, scope.notes})) continue;
      scope.depth = open_calls_;
      scopes_.insert(scopes_.end() - static_cast<ptrdiff_t>(waiting_scopes_), std::move(scope));
    }
  });
}

void ThreadRecorder::EndInnermostScope() {
  InnermostScope()->raised ? RaiseInnermost({}) : LeaveInnermost();
  scopes_.erase(scopes_.end() - static_cast<ptrdiff_t>(waiting_scopes_) - 1);
}

void ThreadRecorder::EndClosedScopes() {
  for (const Scope* scope = InnermostScope(); scope != nullptr && scope->closed; scope = InnermostScope()) {
    EndInnermostScope();
  }
}

bool ThreadRecorder::EnterOpenCall(std::string_view config, uint32_t identity_bytes) {
  if (open_calls_ != before_calls_ || !Enter(config, identity_bytes)) return false;
  ++before_calls_;
  return true;
}

void ThreadRecorder::LeaveOpenCall() {
  EndAmongScopes([this] {
    if (before_calls_ == 0 || open_calls_ != before_calls_) return;
    --before_calls_;
    LeaveInnermost();
  });
}

void ThreadRecorder::RaiseInnermost(std::string_view exception) {
  if (!OwnsInnermostCall()) return;
  const uint64_t bytes = CallWriter::kMaxRecordOverhead + exception.size();
  const bool fits = writer_.Fits(bytes) || NextFrame(bytes);
  --open_calls_;
  if (fits) writer_.Raise(ClockNow(), exception);
}

void ThreadRecorder::BeginSession(uint64_t session, uint64_t number) {
  CloseFrame();
  stale_calls_ += std::exchange(open_calls_, 0) - std::exchange(before_calls_, 0) - (scopes_.size() - waiting_scopes_);
  scopes_.clear();
  waiting_scopes_ = 0;
  session_ = session;
  number_ = number;
  calls_.Set(0);
  getters_.Set(0);
  next_frame_bytes_ = 0;
  tags_version_ = 0;
  tags_.clear();
  options_ = recorder_->options_;
  const WhichCalls stacks = options_->recording.stacks;
  stacks_wanted_ = stacks == WhichCalls::kNone ? 0 : stacks == WhichCalls::kAll ? kAllStacks : kFirstStacks;
  stack_ = stacks_wanted_ == 0 ? nullptr : options_->make_stack();
  first_notes_wanted_ = options_->recording.int_ranges == WhichCalls::kFirst ? kFirstNotes : 0;
  // Each session has its own filter.
  ClearTable();
}

bool ThreadRecorder::CatchUp() {
  if (Recorder::epoch_.load(std::memory_order_acquire) == 0) return false;
  const uint64_t session = session_;
  const bool recording = recorder_->OrStop([this] {
    {
      std::lock_guard<std::mutex> lock(recorder_->mutex_);
      const uint64_t epoch = Recorder::epoch_.load(std::memory_order_relaxed);
      if (epoch == 0) return false;
      if (session_ != recorder_->session_) {
        recorder_->threads_.insert(this);
        BeginSession(recorder_->session_, recorder_->next_thread_++);
      }
      epoch_ = epoch;
      if (tags_version_ == recorder_->tags_version_) return true;
      tags_ = recorder_->tags_;
      tags_version_ = recorder_->tags_version_;
    }
    // If the frame has no room for the tags, the next one starts with them.
    if (!writer_.open()) return true;
    if (!writer_.Fits(CallWriter::kMaxRecordOverhead + tags_.size())) {
      CloseFrame();
    } else {
      writer_.Tags(tags_);
    }
    return true;
  });
  if (recording && session_ != session) {
    auto* const enter = Recorder::enter_open_calls_.load(std::memory_order_acquire);
    if (enter != nullptr) {
      return recorder_->OrStop([enter] {
        enter();
        return true;
      });
    }
  }
  return recording;
}

InternTable::Entry* ThreadRecorder::MakeReady(InternTable::Entry* entry, uint64_t hash, std::string_view config,
                                              uint32_t identity_bytes, CallExtras* extras) {
  return recorder_->OrStop([&]() -> InternTable::Entry* {
    if (Recorder::epoch_.load(std::memory_order_relaxed) != epoch_) {
      if (!CatchUp()) return nullptr;
      entry = table_.Find(hash, config);
    }
    if (entry == nullptr) entry = Intern(hash, config, identity_bytes);
    return Prepare(entry, extras) ? entry : nullptr;
  });
}

InternTable::Entry* ThreadRecorder::Intern(uint64_t hash, std::string_view config, uint32_t identity_bytes) {
  // Clearing the table is safe at any time: a configuration that comes again is defined again. Only a thread that holds
  // more than its share does it; there always is one when all together hold too much.
  const uint64_t most = options_->max_intern_bytes;
  if (recorder_->intern_bytes_.load(std::memory_order_relaxed) > most &&
      table_.bytes() > most / std::max<uint64_t>(recorder_->thread_count_.load(std::memory_order_relaxed), 1)) {
    recorder_->intern_resets_.fetch_add(1, std::memory_order_relaxed);
    ClearTable();
  }
  InternTable::Entry* const entry = table_.Insert(hash, config, identity_bytes);
  CountTable();
  if (!Included(ReadConfigHead(config).api)) entry->definition = kExcluded;
  return entry;
}

void ThreadRecorder::CountTable() {
  recorder_->intern_bytes_.fetch_add(table_.bytes() - counted_bytes_, std::memory_order_relaxed);
  counted_bytes_ = table_.bytes();
}

void ThreadRecorder::ClearTable() {
  table_.Clear();
  CountTable();
}

bool ThreadRecorder::Included(std::string_view api) const {
  const auto matches = [&](const std::string& glob) { return GlobMatch(glob, api); };
  const std::vector<std::string>&include = options_->recording.include, &exclude = options_->recording.exclude;
  if (std::any_of(exclude.begin(), exclude.end(), matches)) return false;
  return include.empty() || std::any_of(include.begin(), include.end(), matches);
}

bool ThreadRecorder::Prepare(InternTable::Entry* entry, CallExtras* extras) {
  if (entry->definition == kExcluded || recorder_->stopped()) return false;
  const bool takes_notes = extras->first_notes != nullptr && entry->notes < first_notes_wanted_;
  if (takes_notes) extras->notes = extras->first_notes->Take();
  const bool takes_stack = entry->stacks < stacks_wanted_;
  RecordedPlace* const stack = takes_stack ? stack_->Take() : nullptr;
  const bool defined = entry->defined_in == frame_number_ && frame_number_ != 0;
  const std::string_view api = ReadConfigHead(entry->identity()).api;
  const std::string schema = defined ? std::string() : recorder_->NewSchema(api);
  const uint64_t schema_bytes = schema.empty() ? 0 : CallWriter::kMaxRecordOverhead + api.size() + schema.size();
  const uint64_t event_bytes = CallWriter::kMaxEventBytes + NotesBytes(*extras);
  const uint64_t bytes = CallWriter::kMaxRecordOverhead + event_bytes + entry->config_bytes + schema_bytes;
  if (!writer_.Fits((defined ? event_bytes : bytes) + StackBytes(stack, frame_number_)) &&
      !NextFrame(bytes + StackBytes(stack, 0))) {
    return false;
  }
  if (entry->defined_in != frame_number_) {
    if (!schema.empty()) writer_.Schema(api, schema);
    entry->definition = static_cast<uint32_t>(writer_.Define(entry->identity(), entry->facets()));
    entry->defined_in = frame_number_;
  }
  entry->frame = frame_number_;
  if (takes_stack) {
    if (stack != nullptr) WriteStack(stack);
    if (stacks_wanted_ != kAllStacks) ++entry->stacks;
  }
  if (takes_notes) ++entry->notes;
  // The next call takes a stack or notes too, so Enter has to call Prepare again.
  if ((takes_stack && entry->stacks < stacks_wanted_) || (takes_notes && entry->notes < first_notes_wanted_)) {
    entry->frame = 0;
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
  return recorder_->OrStop([&] { return recorder_->TakeFrame(this, bytes); });
}

void ThreadRecorder::CloseFrame() {
  if (!writer_.open()) return;
  LogWriter::Close(writer_.frame(), writer_.calls());
  writer_ = CallWriter();
  frame_number_ = 0;
}

void ThreadRecorder::WriteThreadRecord() {
  name_ = options_->name_thread == nullptr ? "" : options_->name_thread();
  if (name_.empty()) name_ = SystemThreadName();
  writer_.Thread(number_, os_id_, ClockNow(), calls_.get(), open_calls_, name_);
  if (!tags_.empty()) writer_.Tags(tags_);
}

void ThreadRecorder::TellName() {
  if (!writer_.open() || session_ != Recorder::session_on_.load(std::memory_order_relaxed)) return;
  recorder_->OrStop([this] {
    const std::string name = options_->name_thread == nullptr ? "" : options_->name_thread();
    const uint64_t bytes = 2 * CallWriter::kMaxRecordOverhead + kThreadNameBytes + tags_.size();
    if (!name.empty() && name != name_ && writer_.Fits(bytes)) WriteThreadRecord();
  });
}

// ---- Recorder ----

std::atomic<uint64_t> Recorder::epoch_{0};
std::atomic<uint64_t> Recorder::session_on_{0};
std::atomic<bool> Recorder::wants_results_{false};
std::atomic<void (*)()> Recorder::enter_open_calls_{nullptr};
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
  ended_threads_.clear();
  added_metadata_.clear();
  own_metadata_.clear();
  told_schemas_.clear();
  not_seen_.clear();
  cut_.clear();
  started_.clear();
  intern_resets_ = 0;
  next_thread_ = 0;
  parent_pid_ = 0;
  forked_ = false;
  before_children_.reset();
  paused_ = was_paused_ = options_->recording.start_paused;
  if (absl::Status status = OpenLog("main"); !status.ok()) return status;
  ShareForksWithoutLog();
  tags_ = options_->tags == "{}" ? "" : options_->tags;
  ++tags_version_;
  ++session_;
  stop_reason_bytes_ = 0;
  stopped_ = false;
  finished_ = false;
  session_on_ = session_;
  wants_results_ = options_->recording.outputs;
  NewEpoch();
  return absl::OkStatus();
}

void Recorder::NewEpoch() {
  epoch_ = finished_ || paused_ || stopped_ ? 0 : ++last_epoch_;
  // Stop takes no lock, so it may have come between.
  if (stopped_) epoch_ = 0;
}

void Recorder::SetPaused(bool paused) {
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(paused_, paused) == paused) return;
    NewEpoch();
    if (!paused || finished_ || std::exchange(was_paused_, true) || log_ == nullptr) return;
    log_->AppendMetadata(kPaused).IgnoreError();
  });
}

bool Recorder::paused() {
  std::lock_guard<std::mutex> lock(mutex_);
  return paused_;
}

void Recorder::SetTags(const std::string& json) {
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    const std::string tags = json == "{}" ? "" : json;
    if (tags == tags_) return;
    tags_ = tags;
    ++tags_version_;
    NewEpoch();
  });
}

Recorder* Recorder::Get() { return g_recorder.load(std::memory_order_acquire); }

std::string Recorder::FirstMetadata(const char* role) {
  const std::string& known = options_->metadata_json;
  std::string json = known.substr(0, known.rfind('}'));
  if (json.find('"') != std::string::npos) json.push_back(',');
  absl::StrAppend(&json, R"("role":")", role, R"(","pid":)", pid_, R"(,"ppid":)", getppid());
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

absl::Status Recorder::OpenLog(const char* role) {
  pid_ = getpid();
  absl::StatusOr<std::unique_ptr<LogWriter>> log;
  // A process id may be reused in one run.
  for (int attempt = 1; attempt < 1000; ++attempt) {
    const std::string again = attempt == 1 ? "" : absl::StrCat("-", attempt);
    const std::string path = absl::StrCat(options_->log_folder, "/", role, "-", pid_, again, ".ttlog");
    log = LogWriter::Create(path, options_->recording.readable ? 0666 : 0600);
    if (log.ok() || access(path.c_str(), F_OK) != 0) break;
  }
  if (!log.ok()) return log.status();

  if (absl::Status status = (*log)->AppendMetadata(FirstMetadata(role)); !status.ok()) return status;
  for (const std::string& json : added_metadata_) {
    if (absl::Status status = (*log)->AppendMetadata(json); !status.ok()) return status;
  }
  for (const std::string& json : own_metadata_) {
    if (absl::Status status = (*log)->AppendMetadata(json); !status.ok()) return status;
  }
  own_metadata_.clear();
  if (const std::string json = forked_ ? EnvironmentNow() : ""; !json.empty()) {
    if (absl::Status status = (*log)->AppendMetadata(json); !status.ok()) return status;
  }
  if (was_paused_) {
    if (absl::Status status = (*log)->AppendMetadata(kPaused); !status.ok()) return status;
  }
  // What a forked child noted before its first call.
  if (!not_seen_.empty()) {
    if (absl::Status status = (*log)->AppendMetadata(absl::StrCat("{", ListNotSeen(not_seen_), "}")); !status.ok()) {
      return status;
    }
  }
  absl::StatusOr<Frame> end = (*log)->Reserve(FrameType::kMetadata, kEndFrameBytes);
  if (!end.ok()) return end.status();
  log_ = std::move(*log);
  end_frame_ = *end;
  return absl::OkStatus();
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

bool Recorder::TakeFrame(ThreadRecorder* thread, uint64_t bytes) {
  bytes += 2 * CallWriter::kMaxRecordOverhead + kThreadNameBytes + thread->tags_.size();
  std::string failure;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // Another session may have begun since the thread checked.
    if (thread->session_ != session_ || finished_) return false;
    if (log_ == nullptr) {  // a forked child's first call
      if (absl::Status status = OpenLog("fork"); !status.ok()) {
        if (g_forks_without_log != nullptr) g_forks_without_log->fetch_add(1);
        failure = std::string(status.message());
      }
    }
    for (size_t i = 0; i < free_frames_.size() && failure.empty(); ++i) {
      if (!free_frames_[i].writer.Fits(bytes)) continue;
      thread->writer_ = free_frames_[i].writer;
      thread->frame_number_ = free_frames_[i].number;
      free_frames_.erase(free_frames_.begin() + static_cast<ptrdiff_t>(i));
      break;
    }
    if (!thread->writer_.open() && failure.empty()) {
      TellClockAgain();
      const uint32_t grown = std::clamp(2 * thread->next_frame_bytes_, kFirstFrameBytes, options_->max_frame_bytes);
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
    ended_threads_[thread->number_] = {thread->calls_.get(), thread->getters_.get()};
    if (!thread->writer_.open()) return;
    free_frames_.push_back({thread->writer_, thread->frame_number_});
    thread->writer_ = CallWriter();
  });
  thread->CloseFrame();
  thread->ClearTable();
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
    if (log_ != nullptr) log_->AppendMetadata(json).IgnoreError();
  });
}

void Recorder::AddOwnMetadata(const std::string& json) {
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    if (finished_) return;
    if (log_ == nullptr) {
      own_metadata_.push_back(json);
    } else {
      log_->AppendMetadata(json).IgnoreError();
    }
  });
}

void Recorder::NoteNotSeen(const std::string& text) {
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    if (finished_ || !not_seen_.insert(text).second || log_ == nullptr) return;
    // Written now because the last words after a signal don't contain it.
    log_->AppendMetadata(absl::StrCat("{", ListNotSeen(not_seen_), "}")).IgnoreError();
  });
}

void Recorder::CountCut(const std::string& what, uint64_t count) {
  OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    cut_[what] += count;
  });
}

void Recorder::CountLost(const std::string& what, const std::function<std::string()>& why) {
  const bool first = OrStop([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    return ++cut_[what] == 1;
  });
  if (!first) return;
  // The other lines are PyTorch's stack trace.
  const std::string error = why();
  NoteNotSeen(absl::StrCat(what, ": ", error.substr(0, error.find('\n')).substr(0, kMaxErrorBytes)));
}

void Recorder::CountStarted(const std::string& program, bool python) {
  OrStop([&] {
    std::string name = program;
    // The end of a path is more useful than its beginning.
    if (name.size() > kMaxStartedBytes) name = absl::StrCat("...", name.substr(name.size() - kMaxStartedBytes));
    std::lock_guard<std::mutex> lock(mutex_);
    if (finished_) return;
    if (started_.size() >= kMaxStarted && !started_.contains(name)) {
      name = kOtherStarted;
      python = false;
    }
    StartedProgram& started = started_[name];
    started.python = started.python || python;
    if (python) NoteChild();
    // This may be the process's last action, so record a new program right away; its count follows at the end.
    if (++started.count != 1) return;
    if (log_ == nullptr && !OpenLog("fork").ok()) return;
    log_->AppendMetadata(absl::StrCat("{", ListStarted(started_), "}")).IgnoreError();
  });
}

void Recorder::Stop(std::string_view reason) {
  if (stopped_.exchange(true)) return;
  epoch_ = 0;
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
  if (!MapZerosOverFrame(address)) return false;
  Recorder* const recorder = Get();
  if (recorder == nullptr) return true;
  if (getpid() == recorder->pid_) {
    recorder->Stop("the log was cut by another program, or its disk is gone");
  } else {
    // This happens again at the next frame; count it once.
    if (g_forks_without_log != nullptr && !recorder->stopped()) g_forks_without_log->fetch_add(1);
    recorder->Stop("the process was forked without the C library's fork handlers");
  }
  return true;
}

std::string Recorder::EndJson(const ProgramEnd& end, bool with_threads) {
  std::string json = R"({"end":{)";
  if (end.program_goes_on) {
    json += R"("program_goes_on":true)";
  } else if (end.signal != 0) {
    absl::StrAppend(&json, R"("signal":)", end.signal);
  } else {
    absl::StrAppend(&json, R"("exit_code":)", end.exit_code);
  }
  const ClockReading now = ReadClock();
  absl::StrAppend(&json, R"(,"units":)", now.units, R"(,"monotonic_ns":)", now.monotonic_ns);

  std::map<uint64_t, ThreadTotals> totals = ended_threads_;
  for (const ThreadRecorder* thread : threads_) {
    totals[thread->number_] = {thread->calls_.get(), thread->getters_.get()};
  }
  uint64_t getters = 0;
  const char* separator = with_threads ? R"(,"threads":[)" : nullptr;
  for (const auto& [number, total] : totals) {
    getters += total.getters;
    if (!with_threads) continue;
    absl::StrAppend(&json, std::exchange(separator, ","), R"({"number":)", number, R"(,"calls":)", total.calls,
                    R"(,"getters":)", total.getters, "}");
  }
  if (with_threads) absl::StrAppend(&json, totals.empty() ? separator : "", "]");
  absl::StrAppend(&json, R"(,"getters":)", getters);

  std::set<std::string> not_seen = not_seen_;
  const uint32_t without_log = forked_ || g_forks_without_log == nullptr ? 0 : g_forks_without_log->load();
  if (without_log != 0) {
    not_seen.insert(absl::StrCat("the calls of ", Counted(without_log, "forked process", "forked processes"),
                                 ": no log could be created there"));
  }
  absl::StrAppend(&json, ",", ListNotSeen(not_seen));
  separator = R"(,"cut":{)";
  for (const auto& [what, count] : cut_) {
    json += std::exchange(separator, ",");
    AppendJson(what, &json);
    absl::StrAppend(&json, ":", count);
  }
  if (!cut_.empty()) json += '}';
  if (const uint64_t resets = intern_resets_.load()) absl::StrAppend(&json, R"(,"intern_resets":)", resets);
  if (!stop_reason().empty()) {
    json += R"(,"stopped":)";
    AppendJson(stop_reason(), &json);
  }
  if (!started_.empty()) absl::StrAppend(&json, ",", ListStarted(started_));
  return json + "}}";
}

size_t Recorder::ShortEndJson(const ProgramEnd& end, char* json, size_t capacity) const {
  const char* const how = end.program_goes_on ? "program_goes_on" : end.signal != 0 ? "signal" : "exit_code";
  char number[16] = "true";
  if (!end.program_goes_on) snprintf(number, sizeof number, "%d", end.signal != 0 ? end.signal : end.exit_code);
  const ClockReading now = ReadClock();
  char stopped[sizeof stop_reason_ + 1];
  const size_t bytes = stop_reason().copy(stopped, sizeof stop_reason_);
  stopped[bytes] = '\0';
  // Escapes would take room and a JSON library.
  std::replace_if(stopped, stopped + bytes, [](char c) { return c < ' ' || c > '~' || c == '"' || c == '\\'; }, '?');
  const int length =
      snprintf(json, capacity, R"({"end":{"%s":%s,"units":%llu,"monotonic_ns":%llu%s%s%s}})", how, number,
               static_cast<unsigned long long>(now.units), static_cast<unsigned long long>(now.monotonic_ns),
               bytes == 0 ? "" : R"(,"stopped":")", stopped, bytes == 0 ? "" : "\"");
  return static_cast<size_t>(length);
}

bool Recorder::WriteEnd(std::string_view json) {
  if (json.size() > end_frame_.payload_bytes()) return log_->AppendMetadata(json).ok();
  Fill(end_frame_, json);
  return true;
}

void Recorder::WriteLastWords(const ProgramEnd& end) {
  try {
    // Leaves out the threads if there are more than the reserved frame has room for, and the disk is full.
    if (WriteEnd(EndJson(end, true)) || WriteEnd(EndJson(end, false))) return;
  } catch (const std::exception&) {
    // Out of memory.
  }
  char json[kShortEndBytes];
  WriteEnd({json, ShortEndJson(end, json, sizeof json)});
}

void Recorder::Finish(const ProgramEnd& end) {
  ThreadRecorder* const own = t_holder.thread;
  std::lock_guard<std::mutex> lock(mutex_);
  if (finished_.exchange(true)) return;
  stopped_ = true;
  session_on_ = 0;
  NewEpoch();
  if (log_ == nullptr) return;  // a forked child that made no call
  if (own != nullptr) own->CloseFrame();
  for (FreeFrame& frame : free_frames_) LogWriter::Close(frame.writer.frame(), frame.writer.calls());
  free_frames_.clear();
  WriteLastWords(end);
  LogWriter::Close(std::exchange(end_frame_, Frame()), 0);
  log_.reset();
}

void Recorder::FinishFromSignal(int signal) {
  // No lock: the signal may have come while this thread held it.
  if (finished_ || end_frame_.header == nullptr || getpid() != pid_ || finished_.exchange(true)) return;
  stopped_ = true;
  epoch_ = 0;
  char json[kShortEndBytes];
  Fill(end_frame_, {json, ShortEndJson({.signal = signal}, json, sizeof json)});
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
  recorder->ended_threads_.clear();
  recorder->told_schemas_.clear();
  recorder->not_seen_.clear();
  recorder->cut_.clear();
  recorder->started_.clear();
  recorder->next_thread_ = 0;
  recorder->parent_pid_ = recorder->pid_;
  recorder->forked_ = true;
  recorder->before_children_.reset();
  recorder->was_paused_ = recorder->paused_;
  if (recorder->stopped()) recorder->finished_ = true;
  recorder->intern_bytes_ = 0;
  recorder->thread_count_ = 0;
  if (own != nullptr) {
    own->writer_ = CallWriter();
    own->frame_number_ = 0;
    own->os_id_ = static_cast<uint64_t>(syscall(SYS_gettid));
    recorder->intern_bytes_ = own->counted_bytes_;
    recorder->thread_count_ = 1;
    if (own->session_ == recorder->session_) {
      own->next_frame_bytes_ = 0;
      own->calls_.Set(0);
      own->getters_.Set(0);
      own->number_ = recorder->next_thread_++;
      recorder->threads_.insert(std::move(own_entry));
    }
  }
  recorder->mutex_.unlock();
}

}  // namespace torchtrace
