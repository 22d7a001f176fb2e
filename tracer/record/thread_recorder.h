// The recorder of a thread: receives the calls that hooks see, and writes them to the thread's frame of the log.

#ifndef TORCHTRACE_TRACER_RECORD_THREAD_RECORDER_H_
#define TORCHTRACE_TRACER_RECORD_THREAD_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/base/bytes.h"
#include "serialize/log/call_writer.h"
#include "serialize/model/call_extras.h"
#include "serialize/model/memory_event.h"
#include "serialize/model/step_marks.h"
#include "tracer/record/call_counter.h"
#include "tracer/record/call_key.h"
#include "tracer/record/call_window.h"
#include "tracer/record/clock.h"
#include "tracer/record/export.h"
#include "tracer/record/intern_table.h"
#include "tracer/record/last_words.h"
#include "tracer/record/session_state.h"

namespace torchtrace {

class Recorder;
struct RecorderOptions;

// How many calls of a configuration on a thread are recorded with stacks, or with first notes.
inline constexpr uint32_t kFirstStacks = 3;
inline constexpr uint32_t kFirstNotes = 3;
inline constexpr uint32_t kAllStacks = UINT32_MAX;

// Most bytes of a thread's name, with the null character.
inline constexpr uint32_t kThreadNameBytes = 256;

// A call of any thread, for notes that come later.
struct EnteredCall {
  uint64_t session = 0;
  uint64_t thread = 0;  // by number
  uint64_t call = 0;    // its number among the calls of the thread

  friend bool operator==(const EnteredCall&, const EnteredCall&) = default;
};

// The number of something that is defined in a frame of the log.
struct InFrame {
  uint32_t frame = 0;  // as ThreadRecorder numbers them; 0: none yet
  uint64_t number = 0;
};

// The program's place when a thread enters a call, as the log stores it (docs/STACKS.md). Independent of Python, which
// python_stack.h reads.
struct RecordedCode {
  std::string file;
  std::string function;  // qualified
  std::string module;
  bool library = false;  // the traced library's or Python's own: never the calling line
  InFrame written;
};

struct RecordedPlace {
  RecordedPlace* caller = nullptr;
  RecordedCode* code = nullptr;
  uint32_t line = 0;  // 0: not known
  InFrame written;
};

// One for each recording thread, used by that thread alone.
class ThreadStack {
 public:
  virtual ~ThreadStack() = default;
  // The calling thread's innermost place, linked to its callers; null when it runs no Python code. Valid until the next
  // Take. Equal places are mostly one object. Preserves a Python error that is set.
  virtual RecordedPlace* Take() = 0;
};

// A count that one thread changes and others may read.
class ThreadCount {
 public:
  void Increment() { value_.store(get() + 1, std::memory_order_relaxed); }
  void Set(uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class ThreadRecorder;

// Marks a thread's innermost open call for a library that knows nothing of calls. Each function is called on the call's
// thread and must not throw.
struct CallMarks {
  // False: it isn't marked, and there is no `unmark` for it.
  bool (*mark)(ThreadRecorder* thread, const EnteredCall& call);
  // Of the call marked last, when it has ended.
  void (*unmark)();
};

// A scope that the program opens and closes by two calls. It may outlive its thread.
class Scope {
 private:
  friend class ThreadRecorder;
  std::string config_;
  uint32_t identity_bytes_ = 0;
  RecordFacts facts_;
  std::string notes_;
  uint64_t opened_ = 0;  // times
  uint64_t depth_ = 0;   // number of open calls, including it, once it has begun
  // By any thread, `raised_` first.
  std::atomic<bool> raised_{false};
  std::atomic<uint64_t> closed_{0};
};

class TORCHTRACE_EXPORT ThreadRecorder {
 public:
  // Records that a call was entered. `config` is its identity followed by its facets (serialize/model/config.h); the
  // first `identity_bytes` are the identity. False: the call is filtered out or recording has stopped; then there must
  // be no Leave. `key`: remembered for EnterAgain if it is valid; null: none.
  bool Enter(std::string_view config, uint32_t identity_bytes, const CallExtras& extras = {},
             const CallKey* key = nullptr);

  // Does the same as Enter did for a call of this valid key, if that is remembered and the call needs no more than that
  // (no stack, no definition in a new frame). kUnknown: nothing was done, the call has to be described.
  enum class Again : char { kUnknown, kEntered, kLeftOut };
  Again EnterAgain(const CallKey& key, const RecordFacts* facts);

  // The same for a call that began before the thread's first record of the session, outermost first. Only LeaveOpenCall
  // ends it.
  bool EnterOpenCall(std::string_view config, uint32_t identity_bytes);
  // Ends the innermost of these; ignored while a call in it is open.
  void LeaveOpenCall();

  // Counts a call that the user holds back, unless the filter excludes it. `config` may be empty if IsFiltered is
  // false. Returns false: there must be no Leave.
  bool LeaveOut(std::string_view config);
  // Whether the session excludes calls by name.
  bool IsFiltered();

  // Ends the innermost entered call. `time`: 0 means now.
  void Leave(const CallResult& result = {}, uint64_t time = 0);
  // `written`: notes on tensors that the call wrote (CallResult).
  void Raise(std::string_view exception, std::string_view written = {}, uint64_t time = 0);

  // The call that the thread has entered last, or, as long as it has entered none, none that Later accepts.
  EnteredCall LastEntered() const { return {session_, number_, calls_.get() - 1}; }
  // The innermost open call, if the session records numbers of tensors or device times. Nothing: the thread is in none,
  // or it was entered before a fork.
  std::optional<EnteredCall> InnermostCall() const {
    if (open_calls_ == 0 || open_calls_ > open_numbers_.size()) return std::nullopt;
    const uint64_t call = open_numbers_[open_calls_ - 1];
    return call == kUnknownCall ? std::nullopt : std::optional(EnteredCall{session_, number_, call});
  }
  // Notes on tensors of a call that was entered earlier, perhaps by another thread: false, as for a call of another
  // session, or one that kRecentCalls others followed. Then nothing is recorded.
  bool Later(const EnteredCall& call, LaterOf of, std::string_view notes);

  // Takes off the marks of all of the thread's calls (CallMarks).
  void UnmarkAll();

  // Memory that the thread has allocated, or is about to free. Recorded while recording is paused too: what is alive is
  // known only if all ends are. Not in a process that has no log yet.
  void Memory(const MemoryEvent& event);

  // Opens a scope (torch.profiler.record_function). The two calls that open and close it may be recorded themselves, as
  // may their callers. To keep calls nested, the scope begins with the first call that is entered after it was opened,
  // with the time of the opening. It ends when it is closed and all calls entered in it have ended, and at the latest
  // with the call in which it began. If the scope around it is closed before it begins, it begins after that one.
  // Null: it isn't recorded.
  std::shared_ptr<Scope> OpenScope(std::string_view config, uint32_t identity_bytes, const CallExtras& extras);
  // On the thread that opened it or, with `thread` null or that of the calling thread, on any other one: its record
  // follows with the thread's next call. `raised`: an exception of unknown type closed it.
  static void CloseScope(ThreadRecorder* thread, Scope* scope, bool raised);

  // Records the thread's name again if it has changed.
  void TellName();

  // Counts a property read or similar call that is left out as noise.
  void CountGetter();

 private:
  friend class Recorder;
  friend struct ThreadHolder;
  explicit ThreadRecorder(Recorder* recorder) : recorder_(recorder) {}

  // The definition number of entries that the filter excludes; no frame ever defines them, so every Enter asks Prepare.
  static constexpr uint32_t kExcluded = UINT32_MAX;
  static constexpr uint64_t kNoEpoch = UINT64_MAX;
  static constexpr uint64_t kUnknownCall = UINT64_MAX;
  // In place of a frame's number: the call is only counted, and the definition is an index into counts_.
  static constexpr uint32_t kCounted = UINT32_MAX;

  // A configuration that the thread knows.
  struct ConfigState {
    uint32_t frame;       // number of the frame that last defined it; 0 while the next call takes a stack or notes
    uint32_t definition;  // its number in that frame
    uint32_t defined_in;  // number of the frame that last defined it, always
    uint16_t stacks;      // how many stacks of its calls were taken
    uint16_t notes;       // how many first notes of its calls were taken
    uint32_t identity_bytes;
    uint32_t sightings;  // how many of its calls were recorded, if there is a window
  };
  using ConfigEntry = InternTable<ConfigState>::Entry;
  // A call's key that it knows, with the state of its configuration when the key was last used: once that needs no more
  // stacks or notes, only a new frame changes it.
  struct KeyState {
    uint32_t frame;
    uint32_t definition;
  };

  // `time`: 0 means now.
  bool EnterAt(uint64_t time, std::string_view config, uint32_t identity_bytes, CallExtras extras, const CallKey* key);
  // Of the call that was entered right now: its number, and a mark.
  void NoteOpened();
  // Takes the marks off calls that are no longer open.
  void Unmark();
  void WriteEnter(uint32_t definition, const RecordFacts* facts, std::string_view notes, uint64_t time);
  // `time`: 0 means now.
  void LeaveInnermost(const CallResult& result = {}, uint64_t time = 0);
  void RaiseInnermost(std::string_view exception, std::string_view written = {}, uint64_t time = 0);
  // The scope that is the innermost open call; null: that is no scope.
  Scope* InnermostScope() {
    const size_t begun = scopes_.size() - waiting_scopes_;
    return begun != 0 && scopes_[begun - 1]->depth_ == open_calls_ ? scopes_[begun - 1].get() : nullptr;
  }
  // Before a call is entered, when there are scopes: ends those that are closed, begins those that wait.
  void SettleScopes();
  // Ends the scopes that are closed, as far as calls in them allow it.
  void EndClosedScopes();
  // In a forked process: they are the parent's.
  void ForgetWaitingScopes();
  // Begins the first `count` of the waiting scopes.
  void BeginScopes(size_t count);
  // `time`: of its end if it isn't closed; 0 means now.
  void EndInnermostScope(uint64_t time = 0);
  // Ends a hook's innermost call at `time` by `end()`: before it the scopes that began in it, after it the closed
  // scopes that waited for it.
  template <typename End>
  void EndAmongScopes(uint64_t time, End end);

  // The slow path of Enter. Returns the entry of the call's configuration, defined in a frame with room for an event
  // and the notes; null: the call isn't recorded. `entry`: the result of Find, null if it wasn't called. `config`
  // becomes invalid if first notes are taken.
  ConfigEntry* MakeReady(ConfigEntry* entry, uint64_t hash, std::string_view config, uint32_t identity_bytes,
                         CallExtras* extras, const CallKey* key);
  void Remember(const CallKey& key, const ConfigEntry& entry);
  // Whether all threads' tables hold more than the budget, and this thread's more than its share.
  bool HoldsTooMuch() const;
  ConfigEntry* Intern(uint64_t hash, std::string_view config, uint32_t identity_bytes);
  // Counts the tables' size in the process's budget.
  void CountTables();
  void ClearTables();
  bool Included(std::string_view api) const;
  // Whether the window, which there is, wants this call; counts it otherwise.
  bool Admits(ConfigEntry* entry);
  void CountLeftOut();
  // Counts a call that isn't listed.
  void Count(ConfigEntry* entry);
  bool CountAgain(uint32_t number);
  ThreadTotals totals() const { return {calls_.get(), getters_.get(), left_out_.get()}; }
  // Defines `entry` in a frame with room for an event and the notes; takes first notes if more are wanted.
  bool Prepare(ConfigEntry* entry, CallExtras* extras);
  static uint64_t NotesBytes(const CallExtras& extras) {
    return extras.notes.empty() ? 0 : extras.notes.size() + CallWriter::kMaxRecordOverhead;
  }
  // `entering`: for a call's entry, for which there may be no more room.
  bool NextFrame(uint64_t bytes, bool entering);
  // Most bytes that `stack` needs in frame number `frame`, with the definitions that the frame doesn't have yet.
  static uint64_t StackBytes(const RecordedPlace* stack, uint32_t frame);
  void WriteStack(RecordedPlace* stack);
  void WriteThreadRecord();
  void CloseFrame();
  // Applies what has changed since this thread's epoch. False: nothing is recorded now.
  bool CatchUp();
  // Makes the thread one of the session's, even if that is paused. False: there is none.
  bool Join();
  // The same. Needs the recorder's lock.
  void JoinSession();
  // Most bytes of the tags with the marks of steps.
  uint64_t TagBytes() const { return tags_.size() + kMostStepMarksBytes; }
  bool IsUpToDate();
  // Resets the thread for session `session`, which doesn't know the calls that are open.
  void BeginSession(uint64_t session, uint64_t number);
  // True if the innermost open call was entered in the current session: the caller still has to decrement open_calls_,
  // after the frame that it may have to begin for the call's end. Otherwise the call was removed here.
  bool OwnsInnermostCall();

  // First what every call needs, in as few lines of the caches as it fits.
  alignas(64) uint64_t epoch_ = kNoEpoch;
  uint64_t session_ = 0;       // of the counts and the frame below
  size_t waiting_scopes_ = 0;  // how many scopes haven't begun
  uint32_t frame_number_ = 0;  // of writer_'s frame, unique in the process; 0: none
  InternTable<KeyState> keys_;
  CallWriter writer_;
  ThreadCount calls_;
  uint64_t open_calls_ = 0;
  uint64_t before_calls_ = 0;                   // those of EnterOpenCall, the outermost of open_calls_
  bool keeps_open_numbers_ = false;             // the session records numbers of tensors, or device times
  std::vector<uint64_t> marked_;                // the depths of open calls that CallMarks has marked, ascending
  std::vector<uint64_t> open_numbers_;          // of the calls in open_calls_, as EnteredCall has them
  std::vector<std::shared_ptr<Scope>> scopes_;  // that haven't ended; those that haven't begun come last

  Recorder* const recorder_;
  InternTable<ConfigState> configs_;
  uint64_t counted_bytes_ = 0;                      // of the tables, as counted in the process's budget
  std::shared_ptr<const RecorderOptions> options_;  // the session's
  ThreadCount getters_;
  std::shared_ptr<CallWindow> window_;    // null: all calls are recorded
  ThreadCount left_out_;                  // by the window and the user
  bool only_counts_ = false;              // the job's logs have no room for more entries
  std::shared_ptr<CallCounter> counter_;  // null: there is always room
  std::vector<CallCount*> counts_;        // that the tables refer to; null: of the process that forked this one
  uint64_t asked_ = 0;                    // how many calls the window was asked for
  uint64_t stale_calls_ = 0;              // open calls that were entered in earlier sessions
  uint64_t number_ = 0;
  uint64_t os_id_ = 0;
  uint32_t next_frame_bytes_ = 0;
  uint64_t tags_version_ = 0;
  std::string tags_;                    // the program's, a JSON object's text; empty: none
  StepMarks steps_;                     // with the tags, as the log has them
  bool enters_open_calls_ = false;      // the session doesn't know the calls that were open when it began
  std::string name_;                    // as recorded last
  std::unique_ptr<ThreadStack> stack_;  // null: no stacks are taken
  uint32_t stacks_wanted_ = 0;          // for each configuration
  uint32_t first_notes_wanted_ = 0;     // for each configuration
  std::vector<RecordedPlace*> unwritten_;
};

inline bool ThreadRecorder::Enter(std::string_view config, uint32_t identity_bytes, const CallExtras& extras,
                                  const CallKey* key) {
  if (!scopes_.empty()) [[unlikely]]
    SettleScopes();
  return EnterAt(0, config, identity_bytes, extras, key);
}

inline bool ThreadRecorder::EnterAt(uint64_t time, std::string_view config, uint32_t identity_bytes, CallExtras extras,
                                    const CallKey* key) {
  const uint64_t hash = Hash64(config.data(), config.size());
  ConfigEntry* entry = nullptr;
  if (SessionState::epoch() == epoch_) [[likely]]
    entry = configs_.Find(hash, config);
  if (entry == nullptr || key != nullptr || entry->frame != frame_number_ || !writer_.FitsEvent(NotesBytes(extras)))
      [[unlikely]] {
    entry = MakeReady(entry, hash, config, identity_bytes, &extras, key);
    if (entry == nullptr) return false;
  }
  WriteEnter(entry->definition, extras.facts, extras.notes, time);
  return true;
}

[[gnu::always_inline]] inline void ThreadRecorder::WriteEnter(uint32_t definition, const RecordFacts* facts,
                                                              std::string_view notes, uint64_t time) {
  if (facts != nullptr && !facts->plain()) writer_.Facts(*facts);
  if (!notes.empty()) writer_.Notes(notes);
  writer_.Enter(definition, time == 0 ? ClockNow() : time);
  calls_.Increment();
  ++open_calls_;
  if (keeps_open_numbers_) [[unlikely]] {
    NoteOpened();
  }
}

inline bool ThreadRecorder::OwnsInnermostCall() {
  const bool is_here = open_calls_ > before_calls_;
  if (is_here && SessionState::session() == session_) [[likely]]
    return true;
  uint64_t& calls = is_here ? open_calls_ : stale_calls_;
  if (calls != 0) --calls;
  return false;
}

inline void ThreadRecorder::Leave(const CallResult& result, uint64_t time) {
  if (scopes_.empty()) [[likely]]
    return LeaveInnermost(result, time);
  EndAmongScopes(time, [&] { LeaveInnermost(result, time); });
}

inline void ThreadRecorder::LeaveInnermost(const CallResult& result, uint64_t time) {
  if (!OwnsInnermostCall()) return;
  const uint64_t result_bytes = result.bytes() != 0 ? result.bytes() + 2 * CallWriter::kMaxRecordOverhead : 0;
  const bool fits =
      writer_.FitsEvent(result_bytes) || NextFrame(CallWriter::kMaxEventBytes + result_bytes, /*entering=*/false);
  --open_calls_;
  if (!marked_.empty()) [[unlikely]] {
    Unmark();
  }
  if (!fits) return;
  if (result.known()) writer_.Result(result);
  if (!result.written.empty()) writer_.Written(result.written);
  writer_.Leave(time == 0 ? ClockNow() : time);
}

template <typename End>
void ThreadRecorder::EndAmongScopes(uint64_t time, End end) {
  EndClosedScopes();
  while (InnermostScope() != nullptr) EndInnermostScope(time);
  end();
  EndClosedScopes();
}

inline void ThreadRecorder::CountGetter() {
  if (SessionState::epoch() == epoch_ || CatchUp()) getters_.Increment();
}

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_THREAD_RECORDER_H_
