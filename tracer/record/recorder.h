// The recorder: receives calls and writes them to the log.

#ifndef TORCHTRACE_TRACER_RECORD_RECORDER_H_
#define TORCHTRACE_TRACER_RECORD_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "serialize/base/bytes.h"
#include "serialize/log/call_writer.h"
#include "serialize/log/log_writer.h"
#include "serialize/model/call_extras.h"
#include "tracer/record/clock.h"
#include "tracer/record/export.h"
#include "tracer/record/intern_table.h"
#include "tracer/record/recording_options.h"
#include "tracer/record/standard_error.h"

namespace torchtrace {

// How many calls of a configuration on a thread are recorded with stacks, or with first notes.
inline constexpr uint32_t kFirstStacks = 3;
inline constexpr uint32_t kFirstNotes = 3;
inline constexpr uint32_t kAllStacks = UINT32_MAX;

// Most bytes of a thread's name, with the null character.
inline constexpr uint32_t kThreadNameBytes = 256;

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

// The recorder turns calls that hooks see into the records of a log.
//
// Recorder: one per process, never destroyed. It records sessions, one after another: a traced program is one, and each
// torchtrace.trace() inside a program is one. It owns the session's log and survives forks: a child continues in a log
// of its own from its first call. ThreadRecorder: one per recording thread; it owns the thread's open frame and its
// table of known configurations. Nothing in a ThreadRecorder is shared, so recording takes no lock: whatever changes
// for all threads (a session, a pause, tags) changes the epoch, which every Enter compares with the one its thread
// knows.
//
// Nothing here throws: if memory or the disk runs out, recording stops with a message, and the program goes on.
//
// A hook describes a call as bytes (serialize/model/config.h). Known bytes cost a hash and a comparison; new ones are
// also written to the log as a definition.
class Recorder;

struct RecorderOptions {
  RecordingOptions recording;  // include and exclude contain only globs, no groups
  std::string log_folder;      // absolute; must exist
  // What is known of the run before it starts, as a JSON object's text. Repeated in every process's log.
  std::string metadata_json = "{}";
  // About how many bytes all threads' tables of known configurations may hold together: above that, a thread that holds
  // more than its share clears its table.
  uint64_t max_intern_bytes = 256 << 20;
  // No frame is larger, unless a single record is; a thread's first ones are smaller.
  uint32_t max_frame_bytes = 4 << 20;
  std::string tags;  // as if by SetTags, right at the start
  // Makes the calling thread's stack; called on any thread.
  std::function<std::unique_ptr<ThreadStack>()> make_stack;
  // The program's name for the calling thread. If it is empty, or there is no such function, we use the system's name.
  std::function<std::string()> name_thread;
  // Metadata of a forked process at its first call, as a JSON object's text; empty: none.
  std::function<std::string()> fork_metadata;
};

// How the traced program ended, for the log's last words.
struct ProgramEnd {
  int exit_code = 0;
  int signal = 0;                // 0: it exited
  bool program_goes_on = false;  // only the recording ends: both above are unknown
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

class TORCHTRACE_EXPORT ThreadRecorder {
 public:
  // Records that a call was entered. `config` is its identity followed by its
  // facets (serialize/model/config.h); the first `identity_bytes` are the identity.
  // False: the call is filtered out or recording has stopped; then there must
  // be no Leave.
  bool Enter(std::string_view config, uint32_t identity_bytes, const CallExtras& extras = {});

  // The same for a call that began before the thread's first record of the session, outermost first. Only LeaveOpenCall
  // ends it.
  bool EnterOpenCall(std::string_view config, uint32_t identity_bytes);
  // Ends the innermost of these; ignored while a call in it is open.
  void LeaveOpenCall();

  // Ends the innermost entered call.
  void Leave(const CallResult& result = {});
  void Raise(std::string_view exception);

  // A scope that the program opens and closes by two calls (torch.profiler.record_function), which may be recorded
  // themselves, as may their callers. To keep calls nested, the scope begins with the first call that is entered after
  // it was opened, with the time of the opening. It ends when it is closed and all calls entered in it have ended, and
  // at the latest with the call in which it began. If the scope around it is closed before it begins, it begins after
  // that one. `key`: a number that no other open scope of the thread has.
  void OpenScope(uint64_t key, std::string_view config, uint32_t identity_bytes, const CallExtras& extras);
  // `raised`: an exception of unknown type closed it.
  void CloseScope(uint64_t key, bool raised);

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

  struct Scope {
    uint64_t key = 0;
    std::string config;
    uint32_t identity_bytes = 0;
    RecordFacts facts;
    std::string notes;
    uint64_t time = 0;
    uint64_t depth = 0;  // number of open calls, including it, once it has begun
    bool closed = false;
    bool raised = false;
  };

  // `time`: 0 means now.
  bool EnterAt(uint64_t time, std::string_view config, uint32_t identity_bytes, CallExtras extras);
  void LeaveInnermost(const CallResult& result = {});
  void RaiseInnermost(std::string_view exception);
  // The scope that is the innermost open call; null: that is no scope.
  Scope* InnermostScope() {
    const size_t begun = scopes_.size() - waiting_scopes_;
    return begun != 0 && scopes_[begun - 1].depth == open_calls_ ? &scopes_[begun - 1] : nullptr;
  }
  // Begins the first `count` of the waiting scopes.
  void BeginScopes(size_t count);
  void EndInnermostScope();
  void EndClosedScopes();
  // Ends a hook's innermost call by `end()`: before it the scopes that began in it, after it the closed scopes that
  // waited for it.
  template <typename End>
  void EndAmongScopes(End end);

  // The slow path of Enter. Returns the entry of the call's configuration, defined in a frame with room for an event
  // and the notes; null: the call isn't recorded. `entry`: the result of Find, null if it wasn't called. `config`
  // becomes invalid if first notes are taken.
  InternTable::Entry* MakeReady(InternTable::Entry* entry, uint64_t hash, std::string_view config,
                                uint32_t identity_bytes, CallExtras* extras);
  InternTable::Entry* Intern(uint64_t hash, std::string_view config, uint32_t identity_bytes);
  // Counts the table's size in the process's budget.
  void CountTable();
  void ClearTable();
  bool Included(std::string_view api) const;
  // Defines `entry` in a frame with room for an event and the notes; takes first notes if more are wanted.
  bool Prepare(InternTable::Entry* entry, CallExtras* extras);
  static uint64_t NotesBytes(const CallExtras& extras) {
    return extras.notes.empty() ? 0 : extras.notes.size() + CallWriter::kMaxRecordOverhead;
  }
  bool NextFrame(uint64_t bytes);
  // Most bytes that `stack` needs in frame number `frame`, with the definitions that the frame doesn't have yet.
  static uint64_t StackBytes(const RecordedPlace* stack, uint32_t frame);
  void WriteStack(RecordedPlace* stack);
  void WriteThreadRecord();
  void CloseFrame();
  // Applies what has changed since this thread's epoch. False: nothing is recorded now.
  bool CatchUp();
  bool IsUpToDate();
  // Resets the thread for session `session`, which doesn't know the calls that are open.
  void BeginSession(uint64_t session, uint64_t number);
  // True if the innermost open call was entered in the current session: the caller still has to decrement open_calls_,
  // after the frame that it may have to begin for the call's end. Otherwise the call was removed here.
  bool OwnsInnermostCall();

  Recorder* const recorder_;
  uint64_t epoch_ = kNoEpoch;
  uint64_t session_ = 0;  // of the counts and the frame below
  CallWriter writer_;
  uint32_t frame_number_ = 0;  // of writer_'s frame, unique in the process; 0: none
  InternTable table_;
  uint64_t counted_bytes_ = 0;                      // of the table, as counted in the process's budget
  std::shared_ptr<const RecorderOptions> options_;  // the session's
  ThreadCount calls_;
  ThreadCount getters_;
  uint64_t open_calls_ = 0;
  uint64_t before_calls_ = 0;  // those of EnterOpenCall, the outermost of open_calls_
  uint64_t stale_calls_ = 0;   // open calls that were entered in earlier sessions
  uint64_t number_ = 0;
  uint64_t os_id_ = 0;
  uint32_t next_frame_bytes_ = 0;
  uint64_t tags_version_ = 0;
  std::string tags_;                    // a JSON object's text; empty: no tags
  std::string name_;                    // as recorded last
  std::unique_ptr<ThreadStack> stack_;  // null: no stacks are taken
  uint32_t stacks_wanted_ = 0;          // for each configuration
  uint32_t first_notes_wanted_ = 0;     // for each configuration
  std::vector<RecordedPlace*> unwritten_;
  std::vector<Scope> scopes_;  // the open ones; those that haven't begun come last
  size_t waiting_scopes_ = 0;  // how many of them haven't begun
};

class TORCHTRACE_EXPORT Recorder {
 public:
  // Begins a session: creates its log `main-<pid>.ttlog`. FailedPrecondition if one is active.
  static absl::Status Start(RecorderOptions options);
  // Null before the first Start.
  static Recorder* Get();

  // Hooks ask this first: false if no session is active, or it is paused or stopped.
  static bool Recording() { return epoch_.load(std::memory_order_relaxed) != 0; }
  // Whether a session is active: recorded calls may still end.
  static bool SessionIsOn() { return session_on_.load(std::memory_order_relaxed) != 0; }
  // Whether the session records what calls return.
  static bool WantsResults() { return wants_results_.load(std::memory_order_relaxed); }

  // The calling thread's recorder, null when recording has stopped. Created at the thread's first call and freed when
  // the thread ends.
  ThreadRecorder* ThisThread();

  // Merges a JSON object into the log's metadata.
  void AddMetadata(const std::string& json);
  // The same for this process's log alone: forked processes don't repeat it.
  void AddOwnMetadata(const std::string& json);

  // For run.json's lists of what was not seen or was cut; each text appears once.
  void NoteNotSeen(const std::string& text);
  void CountCut(const std::string& what, uint64_t count);
  // Counts what an error has lost; the first of its kind is also noted with the error.
  void CountLost(const std::string& what, const std::function<std::string()>& why);

  // Counts a process that was started as a new program, which isn't traced. Creates the log of a forked process that
  // has made no call yet.
  void CountStarted(const std::string& program, bool python);

  // Whether the environment describes this process: true unless it has changed since this session's first fork or start
  // of a Python. A process that starts others sets variables for them.
  bool OwnsEnvironment();

  // Stops or resumes recording the entry of calls, on all threads.
  void SetPaused(bool paused);
  bool paused();

  // Sets the tags of all calls that are entered from now on, on any thread. A JSON object's text; "" or "{}": none.
  void SetTags(const std::string& json);

  // Stops recording for the rest of the session and prints why; called when something fails inside tracing. The first
  // reason counts. Takes no lock, allocates nothing, and is async-signal-safe.
  void Stop(std::string_view reason);
  bool quiet() const { return quiet_.load(std::memory_order_relaxed); }
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  // Closes the log with its last words and ends the session. Threads that still run stop recording; their frames stay
  // open, and readable, until they end or record in another session. Idempotent, per process.
  void Finish(const ProgramEnd& end);
  // The same from a signal handler: only stores to mapped memory.
  void FinishFromSignal(int signal);

  // Sets `enter`, which is called on each thread before its first call in a session, to enter the calls that are open
  // on it. Null: none. There is only one.
  static void SetEnterOpenCalls(void (*enter)()) { enter_open_calls_.store(enter, std::memory_order_release); }

  // Sets `schema_of`, which returns an operator's schema, or an empty text if it is unknown. Called on any thread, once
  // for each log and operator ("aten::t"), before its first definition. Null: no schemas.
  static void SetSchemaOf(std::string (*schema_of)(std::string_view api)) {
    schema_of_.store(schema_of, std::memory_order_release);
  }

  // For the SIGBUS handler: if `address` is in a frame of a log, whose file was truncated or whose disk is gone, stops
  // recording, makes the access succeed when it is repeated, and returns true. Async-signal-safe.
  static bool RecoverFrame(const void* address);

  // True in a process that was forked from the one that called Start.
  bool forked() const { return forked_; }
  // Empty unless recording has stopped early.
  std::string_view stop_reason() const { return {stop_reason_, stop_reason_bytes_.load(std::memory_order_acquire)}; }

 private:
  friend class ThreadRecorder;
  friend struct ThreadHolder;
  struct FreeFrame {
    CallWriter writer;
    uint32_t number;
  };
  struct ThreadTotals {
    uint64_t calls = 0;
    uint64_t getters = 0;
  };

  struct StartedProgram {
    bool python = false;
    uint64_t count = 0;
  };

  Recorder() = default;
  absl::Status Begin(RecorderOptions options);
  // Makes all threads catch up. Needs the lock.
  void NewEpoch();
  // Calls `body`. If it throws, recording stops, and the result is empty.
  template <typename Body>
  std::invoke_result_t<Body> OrStop(Body body);
  absl::Status OpenLog(const char* role);
  std::string FirstMetadata(const char* role);
  // A frame for `thread`, perhaps one that another thread left half full.
  bool TakeFrame(ThreadRecorder* thread, uint64_t bytes);
  // The operator's schema if the log doesn't have it yet, else empty.
  std::string NewSchema(std::string_view api);
  void EndThread(ThreadRecorder* thread);
  // Records the clock against CLOCK_MONOTONIC again, for a log that will have no end. Needs the lock.
  void TellClockAgain();
  std::string EndJson(const ProgramEnd& end, bool with_threads);
  // A short version that always fits; async-signal-safe. Returns its size.
  size_t ShortEndJson(const ProgramEnd& end, char* json, size_t capacity) const;
  // Writes the last words where there is room for them.
  bool WriteEnd(std::string_view json);
  void WriteLastWords(const ProgramEnd& end);
  std::string EnvironmentNow() const;
  void NoteChild();
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();

  // 0: nothing is recorded. No other number is used twice.
  static std::atomic<uint64_t> epoch_;
  static std::atomic<uint64_t> session_on_;  // its number; 0: none
  static std::atomic<bool> wants_results_;
  static std::atomic<void (*)()> enter_open_calls_;
  static std::atomic<std::string (*)(std::string_view)> schema_of_;

  const StandardErrorWatch standard_error_;
  std::atomic<bool> quiet_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> finished_{true};
  std::optional<std::string> before_children_;  // fork_metadata at the first fork or start of a Python
  std::atomic<uint64_t> intern_bytes_{0};
  std::atomic<uint64_t> intern_resets_{0};
  std::atomic<uint64_t> thread_count_{0};
  std::atomic<size_t> stop_reason_bytes_{0};
  char stop_reason_[1024];
  double unit_ns_ = 1;

  std::mutex mutex_;  // guards everything below
  std::shared_ptr<const RecorderOptions> options_;
  std::unique_ptr<LogWriter> log_;
  Frame end_frame_;  // reserved at the start so that the end can always be written
  std::vector<FreeFrame> free_frames_;
  std::set<ThreadRecorder*> threads_;
  std::map<uint64_t, ThreadTotals> ended_threads_;
  std::vector<std::string> added_metadata_;
  std::vector<std::string> own_metadata_;            // for a log that doesn't exist yet
  std::set<std::string, std::less<>> told_schemas_;  // operators whose schemas are in the log
  std::set<std::string> not_seen_;
  std::map<std::string, uint64_t> cut_;
  std::map<std::string, StartedProgram> started_;
  std::string tags_;
  uint64_t tags_version_ = 0;
  uint64_t last_epoch_ = 0;
  uint64_t session_ = 0;
  uint32_t next_frame_number_ = 1;
  uint64_t next_thread_ = 0;
  uint64_t origin_ns_ = 0;      // when the log was created
  uint64_t next_clock_ns_ = 0;  // when to record the clock again
  bool paused_ = false;
  bool was_paused_ = false;  // at any time since this process began to record
  int pid_ = 0;
  int parent_pid_ = 0;  // the traced parent of a forked process
  bool forked_ = false;
};

inline bool ThreadRecorder::Enter(std::string_view config, uint32_t identity_bytes, const CallExtras& extras) {
  if (waiting_scopes_ != 0) [[unlikely]]
    BeginScopes(waiting_scopes_);
  return EnterAt(0, config, identity_bytes, extras);
}

inline bool ThreadRecorder::EnterAt(uint64_t time, std::string_view config, uint32_t identity_bytes,
                                    CallExtras extras) {
  const uint64_t hash = Hash64(config.data(), config.size());
  InternTable::Entry* entry = nullptr;
  if (Recorder::epoch_.load(std::memory_order_relaxed) == epoch_) [[likely]]
    entry = table_.Find(hash, config);
  if (entry == nullptr || entry->frame != frame_number_ || !writer_.FitsEvent(NotesBytes(extras))) [[unlikely]] {
    entry = MakeReady(entry, hash, config, identity_bytes, &extras);
    if (entry == nullptr) return false;
  }
  if (extras.facts != nullptr && !extras.facts->plain()) writer_.Facts(*extras.facts);
  if (!extras.notes.empty()) writer_.Notes(extras.notes);
  writer_.Enter(entry->definition, time == 0 ? ClockNow() : time);
  calls_.Increment();
  ++open_calls_;
  return true;
}

inline bool ThreadRecorder::OwnsInnermostCall() {
  const bool is_here = open_calls_ > before_calls_;
  if (is_here && Recorder::session_on_.load(std::memory_order_relaxed) == session_) [[likely]]
    return true;
  uint64_t& calls = is_here ? open_calls_ : stale_calls_;
  if (calls != 0) --calls;
  return false;
}

inline void ThreadRecorder::Leave(const CallResult& result) {
  if (scopes_.empty()) [[likely]]
    return LeaveInnermost(result);
  EndAmongScopes([&] { LeaveInnermost(result); });
}

inline void ThreadRecorder::LeaveInnermost(const CallResult& result) {
  if (!OwnsInnermostCall()) return;
  const uint64_t result_bytes = result.known() ? result.bytes() + CallWriter::kMaxRecordOverhead : 0;
  const bool fits = writer_.FitsEvent(result_bytes) || NextFrame(CallWriter::kMaxEventBytes + result_bytes);
  --open_calls_;
  if (!fits) return;
  if (result_bytes != 0) writer_.Result(result);
  writer_.Leave(ClockNow());
}

template <typename End>
void ThreadRecorder::EndAmongScopes(End end) {
  while (InnermostScope() != nullptr) EndInnermostScope();
  end();
  EndClosedScopes();
}

inline void ThreadRecorder::CountGetter() {
  if (Recorder::epoch_.load(std::memory_order_relaxed) == epoch_ || CatchUp()) getters_.Increment();
}

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_RECORDER_H_
