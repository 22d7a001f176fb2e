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

#ifndef TORCHTRACE_TRACER_RECORD_RECORDER_H_
#define TORCHTRACE_TRACER_RECORD_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "serialize/log/call_writer.h"
#include "serialize/log/log_writer.h"
#include "serialize/model/step_marks.h"
#include "tracer/record/call_counter.h"
#include "tracer/record/call_window.h"
#include "tracer/record/export.h"
#include "tracer/record/last_words.h"
#include "tracer/record/recording_options.h"
#include "tracer/record/session_state.h"
#include "tracer/record/standard_error.h"
#include "tracer/record/step_window.h"
#include "tracer/record/thread_recorder.h"

namespace torchtrace {

inline constexpr char kNoMemory[] = "no memory is left to record with";

struct RecorderOptions {
  RecordingOptions recording;  // include and exclude contain only globs, no groups
  std::string log_folder;      // absolute; must exist
  // The process was started by a traced one: its log is `child-<pid>.ttlog`, and begins with its first call.
  bool waits_for_calls = false;
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
  // Asked whenever a thread needs a new frame; false: nothing more is recorded in this session. Null: it goes on.
  std::function<bool()> goes_on;
  // What a process that another traced one started is in its program, `DataLoader worker 3`; asked at its first call,
  // and, if that thread didn't know, at the end. Empty: unknown.
  std::function<std::string()> name_process;
  // Metadata of a forked process at its first call, as a JSON object's text; empty: none.
  std::function<std::string()> fork_metadata;
};

class TORCHTRACE_EXPORT Recorder {
 public:
  // Begins a session, and its log `main-<pid>.ttlog`. FailedPrecondition if one is active.
  static absl::Status Start(RecorderOptions options);
  // Null before the first Start.
  static Recorder* Get();

  // Hooks ask this first: false if no session is active, or the program has paused it, or it has stopped.
  static bool Recording() { return SessionState::epoch() != 0; }
  // Whether the user holds back the calls that are entered now (control_page.h): they are only counted.
  static bool HoldsBack() {
    return SessionState::control().order.load(std::memory_order_relaxed) != ControlPage::kNone && HeldByControl();
  }
  // Whether a session is active: recorded calls may still end.
  static bool SessionIsOn() { return SessionState::session() != 0; }
  // Whether the session records what calls return.
  static bool WantsResults() { return SessionState::wants_results(); }

  // The calling thread's recorder, null when recording has stopped. Created at the thread's first call and freed when
  // the thread ends.
  ThreadRecorder* ThisThread();

  // Merges a JSON object into the log's metadata.
  void AddMetadata(const std::string& json);
  // The same for this process's log alone: forked processes don't repeat it.
  void AddOwnMetadata(const std::string& json);

  // Records what the process is in its program, if it is known only now (RecorderOptions::name_process).
  void TellProcessName();

  // For run.json's lists of what was not seen or was cut; each text appears once.
  void NoteNotSeen(const std::string& text) { Note(&SessionNotes::not_seen, text); }
  // A package whose calls were to be recorded: not seen, unless another process of the run has imported it.
  void NoteNotImported(const std::string& text) { Note(&SessionNotes::not_imported, text); }
  void CountCut(const std::string& what, uint64_t count);
  // Counts what an error has lost; the first of its kind is also noted with the error.
  void CountLost(const std::string& what, const std::function<std::string()>& why);

  // What the process starts is traced too, or noted elsewhere (tracer/follow/follow.h).
  void SetFollows() { follows_ = true; }
  bool follows() const { return follows_; }

  // Counts a process that was started as a new program, which isn't traced, unless this one follows. Creates the log of
  // a forked process that has made no call yet.
  void CountStarted(const std::string& program, bool python);

  // Whether the environment describes this process: true unless it has changed since this session's first fork or start
  // of a Python. A process that starts others sets variables for them.
  bool OwnsEnvironment();

  // Stops or resumes recording the entry of calls, on all threads.
  void SetPaused(bool paused);
  bool paused();

  // Sets the tags of all calls that are entered from now on, on any thread. A JSON object's text; "" or "{}": none.
  // A tag `step` ends a step of the program whenever it changes.
  void SetTags(const std::string& json);
  // Where in its steps the program is (step_marks.h), but for those that it tags itself. All calls that are entered
  // from now on carry it, on any thread. `decided`: what StepKind::kStep counts has ended a step.
  void SetSteps(const StepMarks& marks, bool decided);

  // Stops recording for the rest of the session and prints why; called when something fails inside tracing. The first
  // reason counts. Takes no lock, allocates nothing, and is async-signal-safe.
  void Stop(std::string_view reason);
  bool quiet() const { return quiet_.load(std::memory_order_relaxed); }
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  // How open calls are marked in sessions with device times; lives for ever.
  static void SetMarks(const CallMarks* marks) { marks_.store(marks, std::memory_order_release); }
  static const CallMarks* marks() { return marks_.load(std::memory_order_acquire); }

  // Sets `entered`, which is called on the thread after a description with later notes (ConfigBuilder): whether its
  // call was entered, as the thread's last one. Null: none. There is only one.
  static void SetEntered(void (*entered)(bool entered)) { entered_.store(entered, std::memory_order_release); }
  static void TellEntered(bool entered) {
    if (auto* const tell = entered_.load(std::memory_order_acquire)) tell(entered);
  }

  // Sets `before`, which is called before the outermost call of a module on a thread is described. Null: none. There is
  // only one.
  static void SetBeforeModule(void (*before)()) { before_module_.store(before, std::memory_order_release); }
  static void TellBeforeModule() {
    if (auto* const before = before_module_.load(std::memory_order_acquire)) before();
  }

  // Sets `before`, which Finish calls first, to wait for what devices still compute. Null: none. There is only one;
  // returns the one before.
  using BeforeFinish = void (*)();
  static BeforeFinish SetBeforeFinish(BeforeFinish before) { return before_finish_.exchange(before); }
  // What an exception would say if there were a call left to raise it from; the first of a session counts. It is
  // printed at the end, and a program that exits with 0 exits with 1, as by an uncaught exception.
  void SetEndError(const char* message);
  std::string end_error();  // empty: there is none
  int ExitCode(int of_program);
  // Notes as of ThreadRecorder::Later, on a call of any thread: Finish records them, or counts them as lost.
  void KeepLater(const EnteredCall& call, LaterOf of, std::string_view notes);

  // Closes the log with its last words and ends the session. Threads that still run stop recording; their frames stay
  // open, and readable, until they end or record in another session. Idempotent, per process.
  void Finish(const ProgramEnd& end);
  // The same from a signal handler: only stores to mapped memory. A vforked child of the process ends nothing.
  void FinishFromSignal(int signal) { FinishShort({.signal = signal}); }
  void FinishFromExit(int exit_code) { FinishShort({.exit_code = exit_code}); }

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
  // Whether the process has had a log in this session.
  bool has_log() const { return had_log_; }
  // Empty unless recording has stopped early.
  std::string_view stop_reason() const { return {stop_reason_, stop_reason_bytes_.load(std::memory_order_acquire)}; }

 private:
  friend class ThreadRecorder;
  friend struct ThreadHolder;
  struct KeptLater {
    EnteredCall call;
    LaterOf of;
    std::string notes;
  };
  struct ThreadForLater {
    uint64_t calls = 0;
    uint64_t os_id = 0;
    std::string name;
  };
  struct FreeFrame {
    CallWriter writer;
    uint32_t number;
  };
  Recorder() = default;
  absl::Status Begin(RecorderOptions options);
  // Makes all threads catch up. Needs the lock.
  void NewEpoch();
  // The marks of steps that the log has with the program's tags. Needs the lock.
  StepMarks ShownSteps() const;
  // Where the program is, for the window. Needs the lock.
  StepWindow::Place StepNow() const;
  // Sets the program's tags. Returns by what it has steps from now on. Needs the lock.
  StepKind PutTags(const std::string& json);
  // Makes all threads take the tags anew. `kind`: a step of that kind has ended or been tagged. `recorded`: calls were
  // recorded up to now. Needs the lock.
  void TagsChanged(StepKind kind, bool recorded);
  // Writes step_ends_. Needs the lock.
  void WriteStepEnds();
  // Calls `body`. If it throws, recording stops, and the result is empty.
  template <typename Body>
  std::invoke_result_t<Body> OrStop(Body body);
  absl::Status OpenLog();
  // Writes what every log begins with.
  absl::Status BeginLog(LogWriter* log);
  // Whether there is a log, and this process writes it; stops in a stray fork. Needs the lock.
  bool OwnsLog();
  // Opens the log of a forked or started process, which has one from its first call on. Aborted: OwnsLog is false.
  // Needs the lock.
  absl::Status NeedLog();
  // Before the first call that a thread leaves out.
  void BeginLeavingOut();
  const char* Role() const { return forked_ ? "fork" : options_->waits_for_calls ? "child" : "main"; }
  void FinishShort(const ProgramEnd& end);
  // What the control page says, which isn't kNone: whether nothing is recorded now.
  static bool HeldByControl();
  void NoteHeld();
  std::string FirstMetadata();
  // A frame for `thread`, perhaps one that another thread left half full. `entering`: only if the job's logs may grow
  // by it; else the thread only counts.
  bool TakeFrame(ThreadRecorder* thread, uint64_t bytes, bool entering);
  // Bytes of a frame's payload, at least `least` and at most `most`, by which the logs of the job may grow; 0: they may
  // not. Needs the lock.
  uint64_t RoomFor(uint64_t least, uint64_t most);
  // In a process that was forked past the fork handlers, whose parent goes on writing the log. Async-signal-safe.
  void StopInStrayFork();
  // Counts a call that isn't listed. Null: it isn't recorded.
  CallCount* CountCall(ThreadRecorder* thread, std::string_view config, uint32_t identity_bytes);
  // The operator's schema if the log doesn't have it yet, else empty.
  std::string NewSchema(std::string_view api);
  void EndThread(ThreadRecorder* thread);
  // Records the clock against CLOCK_MONOTONIC again, for a log that will have no end. Needs the lock.
  void TellClockAgain();
  LastWords WordsOf(const ProgramEnd& end) const;
  // Records what KeepLater has, in a frame of its own. Needs the lock; no thread records any more.
  void WriteKept();
  // Needs the lock.
  void NoteStepsThatNeverCame();
  // Writes the last words where there is room for them.
  bool WriteEnd(std::string_view json);
  void WriteLastWords(const ProgramEnd& end);
  void Note(std::set<std::string> SessionNotes::* list, const std::string& text);
  std::string EnvironmentNow() const;
  absl::Status WriteProcessName(LogWriter* log);
  void NoteChild();
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();

  static std::atomic<void (*)()> enter_open_calls_;
  static std::atomic<void (*)()> before_finish_;
  static std::atomic<void (*)()> before_module_;
  static std::atomic<void (*)(bool)> entered_;
  static std::atomic<const CallMarks*> marks_;
  static std::atomic<std::string (*)(std::string_view)> schema_of_;

  const StandardErrorWatch standard_error_;
  std::atomic<bool> quiet_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> finished_{true};
  std::atomic<bool> follows_{false};
  std::atomic<bool> had_log_{false};
  std::atomic<bool> held_{false};               // HeldByControl has returned true in this process
  std::optional<std::string> before_children_;  // fork_metadata at the first fork or start of a Python
  std::atomic<uint64_t> intern_bytes_{0};
  std::atomic<uint64_t> intern_resets_{0};
  std::atomic<uint64_t> thread_count_{0};
  std::atomic<size_t> stop_reason_bytes_{0};
  char stop_reason_[kMaxStopReason];
  double unit_ns_ = 1;

  std::mutex mutex_;  // guards everything below
  std::shared_ptr<const RecorderOptions> options_;
  std::shared_ptr<CallWindow> window_;     // null: all calls are recorded
  std::optional<StepWindow> step_window_;  // nothing: in all steps
  std::shared_ptr<CallCounter> counter_;   // null: there is always room to list calls
  uint64_t told_bytes_ = 0;                // of log_, in the count of the job's
  std::unique_ptr<LogWriter> log_;
  Frame end_frame_;  // reserved at the start so that the end can always be written
  std::vector<FreeFrame> free_frames_;
  std::set<ThreadRecorder*> threads_;
  std::vector<KeptLater> kept_;
  std::map<uint64_t, ThreadForLater> ended_for_later_;  // those that later notes may be of, by number
  // With their numbers. One block: a piece of memory for each would keep apart what threads that end leave.
  std::vector<std::pair<uint64_t, ThreadTotals>> ended_threads_;
  std::optional<ThreadTotals> more_ended_threads_;  // those beyond kMostEndedThreads, together
  std::vector<std::string> added_metadata_;
  std::vector<std::string> own_metadata_;            // for a log that doesn't exist yet
  std::set<std::string, std::less<>> told_schemas_;  // operators whose schemas are in the log
  SessionNotes notes_;
  std::string end_error_;
  std::string tags_;  // the program's
  uint64_t tags_version_ = 0;
  StepMarks steps_;
  StepKind step_kind_ = StepKind::kForward;     // the highest one that has ended a step
  std::vector<StepWindow::StepEnd> step_ends_;  // that the log doesn't have yet
  uint64_t last_epoch_ = 0;
  uint64_t session_ = 0;
  uint32_t next_frame_number_ = 1;
  uint64_t next_thread_ = 0;
  uint64_t origin_ns_ = 0;      // when the log was created
  uint64_t next_clock_ns_ = 0;  // when to record the clock again
  bool paused_ = false;
  bool was_paused_ = false;  // at any time since this process began to record
  bool over_ = false;        // RecorderOptions::goes_on said so
  int pid_ = 0;
  int parent_pid_ = 0;  // the traced parent of a forked process
  bool forked_ = false;
  bool named_ = false;  // the log has what the process is in its program
};

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

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_RECORDER_H_
