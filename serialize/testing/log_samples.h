// Logs for tests, written by the same writers as in a traced program, with a
// list of the calls in them. Times advance by 10 ns with every record.

#ifndef TORCHTRACE_SERIALIZE_TESTING_LOG_SAMPLES_H_
#define TORCHTRACE_SERIALIZE_TESTING_LOG_SAMPLES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/log/call_writer.h"
#include "serialize/log/log_format.h"
#include "serialize/log/log_writer.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// The identity (config.h) of a call of `api` with the integer `arg`.
std::string SampleIdentity(int level, std::string_view api, int64_t arg = 0);

// Where a record is in the file.
struct SamplePlace {
  uint64_t frame = 0;  // offset of its frame's header
  uint64_t end = 0;    // offset of the byte after the record
};

struct SampleCall {
  uint64_t thread = 0;
  std::string api;
  int64_t entered = 0;
  SamplePlace entry;
  enum Outcome { kOpen, kLeft, kRaised } outcome = kOpen;
  int64_t ended = 0;
  SamplePlace exit;
};

class SampleLog {
 public:
  static constexpr uint64_t kStart = 1000;
  static constexpr uint32_t kSmallFrame = kPageBytes - sizeof(FrameHeader);

  // Creates the file; `metadata` is merged over the default metadata.
  explicit SampleLog(const std::string& path, std::string_view metadata = "{}");

  LogWriter& writer() { return *writer_; }
  uint64_t now() const { return now_; }
  void Wait(uint64_t units) { now_ += units; }

  // Closes the thread's frame, if any, and continues in a new one.
  void NewFrame(uint64_t thread, uint32_t payload_bytes = kSmallFrame);
  // The thread continues in the frame of the thread `from`, which has ended.
  void TakeFrame(uint64_t thread, uint64_t from);
  void CloseFrame(uint64_t thread);
  // Frames of all threads.
  void CloseFrames();

  // Opens a frame if the thread has none, or if its frame is full.
  void Enter(uint64_t thread, int level, const std::string& api, int64_t arg = 0, std::string_view facets = "");
  void Leave(uint64_t thread);
  void Raise(uint64_t thread, std::string_view exception);
  void Drop(uint64_t thread, uint64_t count, std::string_view reason);
  // Enter, then Leave, `times` times.
  void Call(uint64_t thread, int level, const std::string& api, int times = 1);

  // A forked child's thread begins inside calls of its parent.
  void BeginInside(uint64_t thread, uint64_t open_calls);

  // Writes the metadata of the process's end into the frame that was reserved for it.
  void End(int exit_code = 0);

  uint64_t frame_offset(uint64_t thread) const { return threads_.at(thread).offset; }
  const std::vector<SampleCall>& calls() const { return calls_; }

 private:
  struct Thread {
    CallWriter writer;
    uint64_t offset = 0;                          // of the writer's frame
    std::map<std::string, uint64_t> definitions;  // in this frame
    uint64_t calls = 0;
    std::vector<std::optional<size_t>> open;  // indices into calls_
  };

  void MakeRoom(uint64_t thread, uint64_t bytes);
  Frame Reserve(FrameType type, uint32_t payload_bytes, uint64_t* offset);
  void WriteThread(uint64_t number);
  SamplePlace Here(const Thread& thread) const;
  void Exit(uint64_t thread, SampleCall::Outcome outcome);

  std::unique_ptr<LogWriter> writer_;
  Frame end_frame_;
  uint64_t file_bytes_ = kPageBytes;
  uint64_t now_ = kStart;
  std::map<uint64_t, Thread> threads_;
  std::vector<SampleCall> calls_;
};

// Writes a log with every feature: three threads, reused frames, nested levels,
// raises, drops, repeated definitions, calls across frames. kInOrder: every frame
// is closed; kKilled: some are open, as a killed process leaves them.
enum class SampleEnd { kInOrder, kKilled };
std::unique_ptr<SampleLog> WriteSampleLog(const std::string& path, SampleEnd end);

// Writes a log with numbers of arguments, results and written tensors, also of one without finite elements, and of a
// call that raises.
void WriteNumbersLog(const std::string& path);
// Memory within calls, between them, of another thread, and of devices.
void WriteMemoryLog(const std::string& path);
// Steps that begin, that others decide on, with and without tags of the program.
void WriteStepsLog(const std::string& path);

// Writes a log with notes that came later than their calls: in the same frame, in another one, on behalf of another
// thread at the end, on a call that isn't in the log, of an unknown kind.
void WriteLaterLog(const std::string& path);

// Every record as a line: time, process/thread, what, call number, parent.
std::string DumpTrace(Trace* trace);

// Opens the log twice, and finds the first thread whose records Trace::ReadThreads, with other threads' help, shows
// otherwise than Trace::Read, or a process whose numbers differ; empty: none.
std::string CompareReadings(const std::string& path);

// An empty folder for the current test.
std::string TestFolder();

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, std::string_view bytes);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TESTING_LOG_SAMPLES_H_
