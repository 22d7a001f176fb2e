// The recorder turns calls that hooks see into the records of a log.
//
// Recorder: one per process, created before the traced program starts and never
// destroyed. It owns the log and survives forks: a child goes on in a log of
// its own from its first call. ThreadRecorder: one per thread that records; it
// owns the thread's open frame and its table of known configurations. Nothing
// in a ThreadRecorder is shared, so recording takes no lock.
//
// A hook describes a call as bytes (serialize/config.h). Bytes that were seen
// before cost a hash and a comparison; at first sight they are also written to
// the log as a definition.

#ifndef TORCHTRACE_TRACER_RECORDER_H_
#define TORCHTRACE_TRACER_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "serialize/call_writer.h"
#include "serialize/hash.h"
#include "serialize/log_writer.h"
#include "tracer/clock.h"
#include "tracer/export.h"
#include "tracer/intern_table.h"
#include "tracer/standard_error.h"

namespace torchtrace {

class Recorder;

struct RecorderOptions {
  std::string log_folder;  // absolute; must exist
  // A JSON object's text: what is known of the run before it starts. Repeated
  // in every process's log.
  std::string metadata_json = "{}";
  // API globs ('*', '?'). Empty include: everything.
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  // Bytes that all threads' tables of known configurations may hold together.
  uint64_t max_intern_bytes = 256 << 20;
  // No frame is larger unless one record is; a thread's first ones are smaller.
  uint32_t max_frame_bytes = 4 << 20;
  // Says on stderr, in one line, when tracing stops early.
  bool quiet = false;
};

// How the traced program ended, for the log's last words.
struct ProgramEnd {
  int exit_code = 0;
  int signal = 0;  // 0: it exited
};

class TORCHTRACE_EXPORT ThreadRecorder {
 public:
  // Records that a call was entered. `config` is its identity followed by its
  // facets (serialize/config.h); the first `identity_bytes` are the identity.
  // False: the call is filtered out or recording has stopped; then there must
  // be no Leave.
  bool Enter(std::string_view config, uint32_t identity_bytes) {
    const uint64_t hash = Hash64(config.data(), config.size());
    InternTable::Entry* entry = table_.Find(hash, config);
    if (entry == nullptr) entry = Intern(hash, config, identity_bytes);
    if (entry->frame != frame_number_ || !writer_.FitsEvent()) {
      if (!Prepare(entry)) return false;
    }
    writer_.Enter(entry->definition, ClockNow());
    ++calls_;
    ++open_calls_;
    return true;
  }

  // Ends the innermost entered call.
  void Leave() {
    if (!writer_.FitsEvent() && !NextFrame(CallWriter::kMaxEventBytes)) return;
    writer_.Leave(ClockNow());
    --open_calls_;
  }
  void Raise(std::string_view exception);

  // Property reads and calls of the like that were left out as noise.
  void CountGetter() { ++getters_; }

 private:
  friend class Recorder;
  friend struct ThreadHolder;
  explicit ThreadRecorder(Recorder* recorder) : recorder_(recorder) {}

  // The definition number of entries that the filter leaves out; they are never
  // defined in a frame, so that every Enter asks Prepare.
  static constexpr uint32_t kExcluded = UINT32_MAX;

  InternTable::Entry* Intern(uint64_t hash, std::string_view config, uint32_t identity_bytes);
  // Makes `entry` defined in a frame with room for an event.
  bool Prepare(InternTable::Entry* entry);
  bool NextFrame(uint64_t bytes);
  void WriteThreadRecord();
  void CloseFrame();

  Recorder* const recorder_;
  CallWriter writer_;
  uint32_t frame_number_ = 0;  // of writer_'s frame, unique in the process; 0: none
  InternTable table_;
  uint64_t calls_ = 0;
  uint64_t open_calls_ = 0;
  uint64_t getters_ = 0;
  uint64_t number_ = 0;
  uint64_t os_id_ = 0;
  uint32_t next_frame_bytes_ = 0;
};

class TORCHTRACE_EXPORT Recorder {
 public:
  // Creates the log `main-<pid>.ttlog` and the process's one recorder.
  static absl::Status Start(RecorderOptions options);
  // Null before Start.
  static Recorder* Get();

  // The calling thread's recorder, null when recording has stopped. Made at
  // the thread's first call and given back when the thread ends.
  ThreadRecorder* ThisThread();

  // Merges a JSON object into the log's metadata.
  void AddMetadata(const std::string& json);
  // The same for this process's log alone: forked ones don't repeat it.
  void AddOwnMetadata(const std::string& json);

  // For run.json's list of what was not seen or was cut; said once per text.
  void NoteNotSeen(const std::string& text);
  void CountCut(const std::string& what, uint64_t count);

  // Stops recording for good and says why; called by what fails inside
  // tracing. The first reason counts.
  void Stop(const std::string& reason);
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  // Closes the log with its last words. Threads that still run stop recording;
  // their frames stay open, and readable. Idempotent, per process.
  void Finish(const ProgramEnd& end);
  // The same from a signal handler: only stores to mapped memory.
  void FinishFromSignal(int signal);

  // True in a process that was forked from the one that called Start.
  bool forked() const { return forked_; }
  const std::string& stop_reason() const { return stop_reason_; }

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

  explicit Recorder(RecorderOptions options);
  absl::Status OpenLog(const char* role);
  // A frame for `thread`, perhaps one that another thread left half full.
  bool TakeFrame(ThreadRecorder* thread, uint64_t bytes);
  void EndThread(ThreadRecorder* thread);
  std::string EndJson(const ProgramEnd& end);
  bool Included(std::string_view api) const;
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();

  const RecorderOptions options_;
  const StandardErrorWatch standard_error_;
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> intern_bytes_{0};
  std::atomic<uint64_t> intern_resets_{0};
  double unit_ns_ = 1;

  std::mutex mutex_;  // guards everything below
  std::unique_ptr<LogWriter> log_;
  Frame end_frame_;  // reserved at the start so that the end can always be told
  std::vector<FreeFrame> free_frames_;
  std::set<ThreadRecorder*> threads_;
  std::map<uint64_t, ThreadTotals> ended_threads_;
  std::vector<std::string> added_metadata_;
  std::vector<std::string> own_metadata_;  // for a log that isn't there yet
  std::set<std::string> not_seen_;
  std::map<std::string, uint64_t> cut_;
  std::string stop_reason_;
  uint32_t next_frame_number_ = 1;
  uint64_t next_thread_ = 0;
  int pid_ = 0;
  int parent_pid_ = 0;  // the traced parent of a forked process
  bool forked_ = false;
  bool finished_ = false;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORDER_H_
