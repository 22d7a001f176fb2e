#include "tracer/record/thread_recorder.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "serialize/base/matching.h"
#include "serialize/log/log_writer.h"
#include "serialize/model/config.h"
#include "tracer/record/recorder.h"

namespace torchtrace {
namespace {

std::string SystemThreadName() {
  char name[kThreadNameBytes] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  return name;
}

}  // namespace

uint64_t CallKey::NewFunctionNumber() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

ThreadRecorder::Again ThreadRecorder::EnterAgain(const CallKey& key, const RecordFacts* facts) {
  if (!scopes_.empty()) [[unlikely]]
    SettleScopes();
  if (SessionState::epoch() != epoch_) [[unlikely]]
    return Again::kUnknown;
  const std::string_view bytes = key.bytes();
  const auto* const known = keys_.Find(Hash64(bytes.data(), bytes.size()), bytes);
  if (known == nullptr || known->frame != frame_number_ || !writer_.FitsEvent()) [[unlikely]] {
    if (known == nullptr) return Again::kUnknown;
    if (known->frame == kCounted) return CountAgain(known->definition) ? Again::kLeftOut : Again::kUnknown;
    if (known->definition == kExcluded) return Again::kLeftOut;
    if (window_ == nullptr || !window_->over()) return Again::kUnknown;
    left_out_.Increment();
    return Again::kLeftOut;
  }
  WriteEnter(known->definition, facts, {}, 0);
  return Again::kEntered;
}

bool ThreadRecorder::LeaveOut(std::string_view config) {
  if (IsUpToDate() && (config.empty() ? !IsFiltered() : Included(ReadConfigHead(config).api))) CountLeftOut();
  return false;
}

bool ThreadRecorder::IsFiltered() {
  return IsUpToDate() && !(options_->recording.include.empty() && options_->recording.exclude.empty());
}

bool ThreadRecorder::IsUpToDate() { return SessionState::epoch() == epoch_ || CatchUp(); }

void ThreadRecorder::NoteOpened() {
  open_numbers_.resize(open_calls_ - 1, kUnknownCall);
  open_numbers_.push_back(calls_.get() - 1);
  const CallMarks* const marks = Recorder::marks();
  // Room first: what is marked must be known.
  if (marks == nullptr) return;
  marked_.reserve(marked_.size() + 1);
  if (marks->mark(this, LastEntered())) marked_.push_back(open_calls_);
}

void ThreadRecorder::Unmark() {
  for (; !marked_.empty() && marked_.back() > open_calls_; marked_.pop_back()) Recorder::marks()->unmark();
}

void ThreadRecorder::UnmarkAll() {
  for (; !marked_.empty(); marked_.pop_back()) Recorder::marks()->unmark();
}

void ThreadRecorder::RaiseInnermost(std::string_view exception, std::string_view written, uint64_t time) {
  if (!OwnsInnermostCall()) return;
  const uint64_t bytes = 2 * CallWriter::kMaxRecordOverhead + exception.size() + written.size();
  const bool fits = writer_.Fits(bytes) || NextFrame(bytes, /*entering=*/false);
  --open_calls_;
  if (!marked_.empty()) Unmark();
  if (!fits) return;
  if (!written.empty()) writer_.Written(written);
  writer_.Raise(time == 0 ? ClockNow() : time, exception);
}

bool ThreadRecorder::Later(const EnteredCall& call, LaterOf of, std::string_view notes) {
  if (call.session != session_ || call.thread != number_ || SessionState::session() != session_) return false;
  const uint64_t since = calls_.get() - 1 - call.call;
  if (since >= std::min(kRecentCalls, calls_.get())) return false;
  const uint64_t bytes = CallWriter::kMaxRecordOverhead + notes.size();
  if (!writer_.Fits(bytes) && !NextFrame(bytes, /*entering=*/false)) return false;
  writer_.Later({since, of, notes});
  return true;
}

void ThreadRecorder::Memory(const MemoryEvent& event) {
  const uint64_t session = SessionState::session();
  if (session == 0 || recorder_->stopped() || !recorder_->has_log()) return;
  if (session_ != session && !Join()) return;
  // What happens in a scope comes after its entry. The lock of a device's allocator may be held, with which none may
  // wait for Python to take a stack.
  if (waiting_scopes_ != 0 && (stack_ == nullptr || event.device == MemoryDevice()) && Recorder::Recording() &&
      !Recorder::HoldsBack()) {
    SettleScopes();
  }
  if (!writer_.FitsEvent() && !NextFrame(CallWriter::kMaxEventBytes, /*entering=*/false)) return;
  writer_.Memory(event, ClockNow());
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
  left_out_.Set(0);
  window_ = recorder_->window_;
  only_counts_ = false;
  counter_ = recorder_->counter_;
  asked_ = 0;
  next_frame_bytes_ = 0;
  tags_version_ = 0;
  tags_.clear();
  steps_ = StepMarks();
  enters_open_calls_ = true;
  options_ = recorder_->options_;
  const WhichCalls stacks = options_->recording.stacks;
  stacks_wanted_ = stacks == WhichCalls::kNone ? 0 : stacks == WhichCalls::kAll ? kAllStacks : kFirstStacks;
  stack_ = stacks_wanted_ == 0 ? nullptr : options_->make_stack();
  keeps_open_numbers_ = options_->recording.numbers != WhichNumbers::kNone || options_->recording.device_times;
  UnmarkAll();
  open_numbers_.clear();
  first_notes_wanted_ = options_->recording.int_ranges == WhichCalls::kFirst ? kFirstNotes : 0;
  // Each session has its own filter.
  ClearTables();
}

bool ThreadRecorder::Join() {
  return recorder_->OrStop([this] {
    std::lock_guard<std::mutex> lock(recorder_->mutex_);
    if (recorder_->finished_) return false;
    JoinSession();
    return true;
  });
}

void ThreadRecorder::JoinSession() {
  if (session_ == recorder_->session_) return;
  recorder_->threads_.insert(this);
  BeginSession(recorder_->session_, recorder_->next_thread_++);
}

bool ThreadRecorder::CatchUp() {
  if (SessionState::epoch() == 0) return false;
  const bool recording = recorder_->OrStop([this] {
    StepMarks before;
    bool only_steps;
    {
      std::lock_guard<std::mutex> lock(recorder_->mutex_);
      const uint64_t epoch = SessionState::epoch();
      if (epoch == 0) return false;
      JoinSession();
      epoch_ = epoch;
      if (tags_version_ == recorder_->tags_version_) return true;
      tags_version_ = recorder_->tags_version_;
      before = std::exchange(steps_, recorder_->ShownSteps());
      only_steps = tags_ == recorder_->tags_;
      if (!only_steps) tags_ = recorder_->tags_;
    }
    // If the frame has no room for the tags, the next one starts with them.
    if (!writer_.open()) return true;
    if (!writer_.Fits(CallWriter::kMaxRecordOverhead + TagBytes())) {
      CloseFrame();
    } else if (only_steps) {
      writer_.Steps(before, steps_);
    } else {
      writer_.Tags(WithStepMarks(tags_, steps_));
    }
    return true;
  });
  if (recording && std::exchange(enters_open_calls_, false)) {
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

ThreadRecorder::ConfigEntry* ThreadRecorder::MakeReady(ConfigEntry* entry, uint64_t hash, std::string_view config,
                                                       uint32_t identity_bytes, CallExtras* extras,
                                                       const CallKey* key) {
  return recorder_->OrStop([&]() -> ConfigEntry* {
    if (SessionState::epoch() != epoch_) {
      if (!CatchUp()) return nullptr;
      entry = configs_.Find(hash, config);
    }
    if (entry == nullptr) entry = Intern(hash, config, identity_bytes);
    const bool ready = Prepare(entry, extras);
    if (key != nullptr && key->valid()) Remember(*key, *entry);
    return ready ? entry : nullptr;
  });
}

void ThreadRecorder::Remember(const CallKey& key, const ConfigEntry& entry) {
  const std::string_view bytes = key.bytes();
  const uint64_t hash = Hash64(bytes.data(), bytes.size());
  auto* known = keys_.Find(hash, bytes);
  if (known == nullptr) {
    if (HoldsTooMuch()) {
      // Keys are only a short cut: they make room if they hold the most.
      if (2 * keys_.memory() < counted_bytes_) return;
      keys_.Clear();
      CountTables();
    }
    known = keys_.Insert(hash, bytes);
    CountTables();
  }
  known->frame = entry.frame;
  known->definition = entry.definition;
}

bool ThreadRecorder::HoldsTooMuch() const {
  const uint64_t most = options_->max_intern_bytes;
  return recorder_->intern_bytes_.load(std::memory_order_relaxed) > most &&
         counted_bytes_ > most / std::max<uint64_t>(recorder_->thread_count_.load(std::memory_order_relaxed), 1);
}

ThreadRecorder::ConfigEntry* ThreadRecorder::Intern(uint64_t hash, std::string_view config, uint32_t identity_bytes) {
  // Clearing the tables is safe at any time: a configuration that comes again is defined again. Only a thread that
  // holds more than its share does it; there always is one when all together hold too much.
  if (HoldsTooMuch()) {
    recorder_->intern_resets_.fetch_add(1, std::memory_order_relaxed);
    ClearTables();
  }
  ConfigEntry* const entry = configs_.Insert(hash, config);
  entry->identity_bytes = identity_bytes;
  CountTables();
  if (!Included(ReadConfigHead(config).api)) entry->definition = kExcluded;
  return entry;
}

void ThreadRecorder::CountTables() {
  const uint64_t bytes = configs_.memory() + keys_.memory();
  recorder_->intern_bytes_.fetch_add(bytes - counted_bytes_, std::memory_order_relaxed);
  counted_bytes_ = bytes;
}

void ThreadRecorder::ClearTables() {
  configs_.Clear();
  keys_.Clear();
  counts_.clear();
  CountTables();
}

bool ThreadRecorder::Included(std::string_view api) const {
  const auto matches = [&](const std::string& glob) { return GlobMatch(glob, api); };
  const std::vector<std::string>&include = options_->recording.include, &exclude = options_->recording.exclude;
  if (std::any_of(exclude.begin(), exclude.end(), matches)) return false;
  return include.empty() || std::any_of(include.begin(), include.end(), matches);
}

bool ThreadRecorder::Admits(ConfigEntry* entry) {
  if (window_->Admits(entry->sightings, number_, asked_++)) {
    if (entry->sightings != UINT32_MAX) ++entry->sightings;
    return true;
  }
  CountLeftOut();
  return false;
}

void ThreadRecorder::CountLeftOut() {
  if (left_out_.get() == 0) recorder_->BeginLeavingOut();
  left_out_.Increment();
}

void ThreadRecorder::Count(ConfigEntry* entry) {
  const bool known = entry->frame == kCounted;
  if (known && CountAgain(entry->definition)) return;
  CallCount* const count = recorder_->CountCall(this, entry->bytes(), entry->identity_bytes);
  if (known) {
    counts_[entry->definition] = count;
  } else if (window_ == nullptr) {  // which has to be asked for each call
    entry->frame = kCounted;
    entry->definition = static_cast<uint32_t>(counts_.size());
    counts_.push_back(count);
  }
}

bool ThreadRecorder::CountAgain(uint32_t number) {
  CallCount* const count = counts_[number];
  if (count != nullptr) count->fetch_add(1, std::memory_order_relaxed);
  return count != nullptr;
}

bool ThreadRecorder::Prepare(ConfigEntry* entry, CallExtras* extras) {
  if (entry->definition == kExcluded || recorder_->stopped()) return false;
  if (window_ != nullptr && !Admits(entry)) return false;
  if (only_counts_) {
    Count(entry);
    return false;
  }
  const bool takes_notes = extras->first_notes != nullptr && entry->notes < first_notes_wanted_;
  if (takes_notes) extras->notes = extras->first_notes->Take();
  const bool takes_stack = entry->stacks < stacks_wanted_;
  RecordedPlace* const stack = takes_stack ? stack_->Take() : nullptr;
  const bool defined = entry->defined_in == frame_number_ && frame_number_ != 0;
  const std::string_view config = entry->bytes();
  const std::string_view api = ReadConfigHead(config).api;
  const std::string schema = defined ? std::string() : recorder_->NewSchema(api);
  const uint64_t schema_bytes = schema.empty() ? 0 : CallWriter::kMaxRecordOverhead + api.size() + schema.size();
  const uint64_t event_bytes = CallWriter::kMaxEventBytes + NotesBytes(*extras);
  const uint64_t bytes = CallWriter::kMaxRecordOverhead + event_bytes + config.size() + schema_bytes;
  if (!writer_.Fits((defined ? event_bytes : bytes) + StackBytes(stack, frame_number_)) &&
      !NextFrame(bytes + StackBytes(stack, 0), /*entering=*/true)) {
    if (only_counts_) Count(entry);
    return false;
  }
  if (entry->defined_in != frame_number_) {
    if (!schema.empty()) writer_.Schema(api, schema);
    entry->definition = static_cast<uint32_t>(
        writer_.Define(config.substr(0, entry->identity_bytes), config.substr(entry->identity_bytes)));
    entry->defined_in = frame_number_;
  }
  entry->frame = frame_number_;
  if (takes_stack) {
    if (stack != nullptr) WriteStack(stack);
    if (stacks_wanted_ != kAllStacks) ++entry->stacks;
  }
  if (takes_notes) ++entry->notes;
  // The next call takes a stack or notes too, or the window decides on it, so Enter has to call Prepare again.
  if (window_ != nullptr || (takes_stack && entry->stacks < stacks_wanted_) ||
      (takes_notes && entry->notes < first_notes_wanted_)) {
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

bool ThreadRecorder::NextFrame(uint64_t bytes, bool entering) {
  if (recorder_->stopped()) return false;
  CloseFrame();
  return recorder_->OrStop([&] { return recorder_->TakeFrame(this, bytes, entering); });
}

void ThreadRecorder::CloseFrame() {
  if (!writer_.open()) return;
  LogWriter::Close(writer_.frame(), writer_.calls());
  writer_ = CallWriter();
  frame_number_ = 0;
}

void ThreadRecorder::WriteThreadRecord() {
  std::string name = options_->name_thread == nullptr ? "" : options_->name_thread();
  if (name.empty()) name = SystemThreadName();
  {
    // Recorder::WriteKept reads it.
    std::lock_guard<std::mutex> lock(recorder_->mutex_);
    name_ = std::move(name);
  }
  writer_.Thread(number_, os_id_, ClockNow(), calls_.get(), open_calls_, name_);
  if (const std::string tags = WithStepMarks(tags_, steps_); !tags.empty()) writer_.Tags(tags);
}

void ThreadRecorder::TellName() {
  if (!writer_.open() || session_ != SessionState::session()) return;
  recorder_->OrStop([this] {
    const std::string name = options_->name_thread == nullptr ? "" : options_->name_thread();
    const uint64_t bytes = 2 * CallWriter::kMaxRecordOverhead + kThreadNameBytes + TagBytes();
    if (!name.empty() && name != name_ && writer_.Fits(bytes)) WriteThreadRecord();
  });
}

}  // namespace torchtrace
