// The interface of traces: the processes of a run with their metadata, and their calls in program order, independent of
// the format. OpenLogs (log_trace.h) opens logs, OpenTrace (open_trace.h) files of any format. Nothing here throws.

#ifndef TORCHTRACE_SERIALIZE_TRACE_TRACE_H_
#define TORCHTRACE_SERIALIZE_TRACE_TRACE_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "serialize/model/call_extras.h"
#include "serialize/model/memory_event.h"
#include "serialize/trace/tables.h"

namespace torchtrace {

// A program that a traced one started in a separate process, which was not traced.
struct StartedProgram {
  bool python = false;
  uint64_t count = 0;
};

struct ProcessRank {
  std::optional<int64_t> rank;
  std::optional<int64_t> world_size;
};

// The metadata of a process as plain data with checked types, parsed once for all readers.
// Metadata may be damaged, missing or written by anybody; a value of another type than
// expected counts as missing. docs/FORMAT.md lists the keys. To copy metadata, copy the JSON.
// Where counts that a process writes at its end are unknown.
inline constexpr char kDidNotEnd[] = "where a process did not end by itself";

struct ProcessMetadata {
  // Missing texts are empty.
  std::string role;
  // What the process is in its job, if that is known: `rank 1, DataLoader worker 3, restart 2 (1234)`.
  std::string name;
  std::string dialect;
  std::string host;
  std::optional<int64_t> pid;
  // From the metadata, or else from the recorded environment as torchrun, Open MPI, PMI or Slurm set it; nullopt if the
  // number is impossible.
  ProcessRank ranked;
  std::optional<std::string> cwd;
  std::map<std::string, std::string, std::less<>> package_versions;

  // Of a merged process: the original log, and the label of its run.
  bool has_source = false;
  std::string source;
  std::string label;

  // The options of the recording.
  std::vector<int> levels;
  std::optional<std::string> stacks;
  std::optional<std::string> stack_format;
  bool numbers = false;  // of tensors
  bool memory = false;   // allocated and freed
  // What allocators that keep statistics say of a device.
  struct AllocatorTotals {
    uint64_t before = 0;  // bytes asked for that lived before the trace
    // The most that was asked for, and handed out, at a time; 0: unknown.
    uint64_t requested_peak = 0;
    uint64_t allocated_peak = 0;
  };
  std::map<MemoryDevice, AllocatorTotals> allocators;
  bool device_times = false;  // of the work on devices that calls launched

  bool has_clock = false;
  std::optional<int64_t> origin_realtime_ns;

  bool paused = false;      // for some of the time
  std::string step_window;  // what leaves out steps: `--steps 10-12 --max-steps 3`

  // By what it had steps, and, if the end tells, where it was in them.
  StepKind steps_by = StepKind::kForward;
  StepMarks last_steps;
  std::map<uint64_t, int64_t> step_ends;  // of those steps that no call of the trace follows at once

  // How it ended.
  std::optional<int64_t> exit_code;
  std::optional<int64_t> signal;
  bool program_goes_on = false;        // the trace was closed before the program's end
  std::optional<int64_t> duration_ns;  // from its first record to its end
  std::string stopped;                 // why tracing stopped before that

  // What is missing.
  uint64_t getters = 0;              // calls of property getters that were left out
  bool getters_unknown = false;      // their number is unknown: a signal ended the process
  std::vector<std::string> windows;  // what leaves out calls: `--skip 10 --max-calls 100`, `torchtrace ctl`
  uint64_t left_out = 0;             // calls that they left out
  std::string left_out_unknown;      // where their number is unknown; empty: it is known
  bool follow_only = false;          // only some of the Python programs that it starts are traced
  int64_t max_size = 0;              // bytes of the run's logs up to which calls were listed; 0: no limit
  std::map<std::string, uint64_t> cut;
  std::vector<std::string> not_seen;
  std::vector<std::string> not_imported;          // packages whose calls were to be recorded, a sentence each
  std::string steps_not_seen;                     // a sentence, if no step that was to be recorded came
  std::map<std::string, StartedProgram> started;  // by the program's path

  // The version of that package; empty if unknown.
  std::string PackageVersion(std::string_view package) const;
};

ProcessMetadata ParseProcessMetadata(const nlohmann::json& metadata);

// Who reads a trace: receives the progress, to show it to the user. Each pass over a trace starts again at 0.
class ReadingObserver {
 public:
  enum Unit : uint8_t { kBytes, kCalls };

  virtual ~ReadingObserver() = default;

  // Called now and then, from the thread that reads. `total` is 0 if unknown.
  virtual void OnRead(Unit unit, uint64_t done, uint64_t total) = 0;

  // How many other threads may help to read.
  virtual size_t threads() const { return 0; }
};

// What is missing from a log or damaged in it.
struct Damage {
  std::vector<std::string> sentences;  // one for each finding, with its byte offset
  uint64_t lost_calls = 0;             // calls that were recorded and can't be read
  uint64_t lost_bytes = 0;
  bool lost_calls_exact = true;  // false: at least lost_calls
};

// "no calls", "1 call", "at least 3 calls", "an unknown number of calls".
std::string CountLostCalls(uint64_t lost_calls, bool exact);

// ConfigId and VariantId number the configurations of the whole trace by content, in
// the order in which the logs of its processes define them.
inline constexpr uint32_t kLostId = UINT32_MAX;  // none
inline constexpr uint64_t kNoCall = UINT64_MAX;
inline constexpr uint32_t kNoThread = UINT32_MAX;

struct ThreadInfo {
  uint64_t number = 0;  // in its process, from 0, in order of first call
  uint64_t os_id = 0;
  std::string name;
  uint64_t calls = 0;
};

struct ProcessInfo {
  std::string path;                                // of the log file
  std::shared_ptr<const nlohmann::json> metadata;  // all metadata frames merged
  ProcessMetadata known;                           // the same, parsed
  bool closed = false;                             // it ended in order, and metadata["end"] says how
  uint64_t calls = 0;
  uint64_t open_calls = 0;  // of `calls`, those whose end isn't in the log
  uint64_t counted = 0;     // of `calls`, those that are only counted: `run --max-size`
  uint64_t file_bytes = 0;
  uint64_t event_bytes = 0;  // of enter, leave and raise records
  uint64_t definition_bytes = 0;
  std::map<std::string, uint64_t> dropped;  // calls seen but not recorded, by reason
  std::vector<ThreadInfo> threads;          // by number
  Damage damage;

  // Sets `metadata` and `known`.
  void SetMetadata(std::shared_ptr<const nlohmann::json> json);
};

// The thread of that number, or null.
const ThreadInfo* FindThread(const ProcessInfo& process, uint64_t number);

class LogReader;

// A process of a log.
struct LogSource {
  const LogReader* log = nullptr;  // owned by the trace; null: the trace has another format
  uint32_t process = 0;            // index into log->processes()
};

enum class CallOutcome : uint8_t { kReturned, kRaised, kNeverReturned };

// One step of the trace in program order: a call's entry or its end. Ends whose
// entry isn't in the trace (a child forked inside a call returns from it; the
// entry was lost) are left out.
struct CallRecord {
  enum Kind : uint8_t {
    kEnter,
    kLeave,
    kRaise,
    // Notes on tensors of an earlier call: `call`, with its thread and configuration. They are in `notes`,
    // `result.notes` or `result.written`, as its own are, or there is `device_work`. Only for readers that ask
    // (LaterNotesShown).
    kLater,
    // Memory that the thread allocated or freed: `memory`. `call`, `config` and the like are of its innermost open
    // call, or none. Only for readers that ask (MemoryShown).
    kMemory,
  } kind = kEnter;
  uint8_t level = 0;
  uint32_t process = 0;       // index into processes()
  uint32_t thread = 0;        // ThreadInfo::number in that process; kNoThread: the log only counts the call
  uint32_t depth = 0;         // calls open around it on its thread, including those without an entry
  ConfigId config = kLostId;  // leave and raise: of the call that ends
  VariantId variant = kLostId;
  uint64_t call = 0;             // number of the call in the trace, from 0, by entry; leave: its entry's
  uint64_t count = 1;            // from Trace::ReadCounted: the number of equal calls in a row
  uint32_t tags = kNoTags;       // enter: Trace::tags
  StackId stack = kNoStack;      // enter: Trace::stacks; where it was called
  RecordFacts facts;             // enter, of level 4
  std::string_view notes;        // enter: on its tensors (tensor_notes.h); valid during the visit
  CallResult result;             // leave and raise: what was recorded of it; valid during the visit
  std::string_view device_work;  // later: what it launched on devices (device_work.h); valid during the visit
  uint64_t parent = kNoCall;     // innermost open call around it; kNoCall: none, or its entry isn't in the trace
  // CLOCK_MONOTONIC of the machine it ran on; if the process's metadata has no
  // clock, a number that never decreases.
  int64_t time_ns = 0;
  int64_t duration_ns = 0;     // leave and raise
  std::string_view exception;  // raise: the type's name; valid during the visit
  MemoryEvent memory;          // memory

  // Of all `count` calls, limited so that sums don't overflow.
  int64_t total_duration_ns() const {
    constexpr int64_t kMaxNs = 1'000'000'000'000'000'000;
    int64_t product;
    if (count > kMaxNs || __builtin_mul_overflow(duration_ns, static_cast<int64_t>(count), &product)) return kMaxNs;
    return product < kMaxNs ? product : kMaxNs;
  }
};

// The place of a record in the trace's order, as Trace::Read visits it.
struct CallOrder {
  uint32_t group = 0;  // processes whose times can be compared
  int64_t time_ns = 0;
  uint64_t number = 0;

  friend auto operator<=>(const CallOrder&, const CallOrder&) = default;
};

// Which records readings of a trace show beside entries and ends.
struct RecordsShown {
  bool later = false;
  bool memory = false;
};

class Trace {
 public:
  virtual ~Trace() = default;

  // Calls the visitor for every record, ordered by time over all threads and
  // processes (log_metadata.h), and on one thread in the order written. May be called again:
  // ids and numbers are the same each time. Fills in the numbers in processes().
  // A visitor's error stops the reading and is returned.
  using Visitor = std::function<absl::Status(const CallRecord&)>;
  virtual absl::Status Read(const Visitor& visitor) = 0;

  // The same, but calls that the trace only has a number of are one record with a count. Read repeats those of lists,
  // and fails if there are too many for that; those that a log only counts, by an unknown thread, it leaves out.
  virtual absl::Status ReadCounted(const Visitor& visitor) = 0;
  // Those records of ReadCounted alone: of calls that a log only counts.
  virtual absl::Status ReadCounts(const Visitor&) { return absl::OkStatus(); }

  // The same, but only the records of one thread are in order, `parent` and `call` number the calls of this reading,
  // and a log is read only once. Numbers in processes() are valid after it.
  using ThreadsVisitor = std::function<void(const CallRecord&)>;
  virtual absl::Status ReadThreads(const ThreadsVisitor& visitor) {
    return ReadCounted([&visitor](const CallRecord& call) -> absl::Status {
      visitor(call);
      return absl::OkStatus();
    });
  }
  // For records of ReadThreads. Equal only for records of one thread.
  virtual CallOrder OrderOf(const CallRecord& call) const { return {0, 0, call.call}; }

  // Returns the numbers of calls by VariantId, without times or order: several times
  // faster. Further calls return the same result.
  virtual absl::StatusOr<std::vector<uint64_t>> Count() = 0;

  // Valid after a reading or Count.
  virtual size_t config_count() const = 0;
  virtual size_t variant_count() const = 0;
  virtual std::string_view identity(ConfigId config) const = 0;  // config.h
  virtual std::string_view facets(VariantId variant) const = 0;
  virtual ConfigId config_of(VariantId variant) const = 0;

  // The tags for CallRecord::tags, which the program set for the calls: a JSON object's
  // text, or empty. Valid as long as the trace; equal texts are at the same place.
  virtual std::string_view tags(uint32_t id) const = 0;
  // The tag `step` in them (step_marks.h).
  virtual std::string_view step_tag(uint32_t) const { return {}; }
  // Where in the program's steps the calls were. Valid as long as the trace.
  virtual const StepMarks& steps(uint32_t) const {
    static const StepMarks none;
    return none;
  }

  // The stacks that CallRecords refer to; grows during Read. Valid as long as the trace.
  virtual const StackTable& stacks() const = 0;

  // In the order of log_metadata.h: by start. Path, metadata, closed and file_bytes are valid from the
  // beginning, the rest after a reading or Count.
  virtual const std::vector<ProcessInfo>& processes() const = 0;

  // The log of a process of processes(), for TraceWriter::CopyCalls.
  virtual LogSource log_source(size_t process) const = 0;

  const RecordsShown& shown() const { return shown_; }
  bool shows_later() const { return shown_.later; }

 protected:
  friend class LaterNotesShown;
  friend class MemoryShown;
  virtual void SetShown(RecordsShown shown) { shown_ = shown; }

 private:
  RecordsShown shown_;
};

// While it lives, readings of the trace show records of kind kLater too. They keep something of each thread's last
// kRecentCalls calls.
class LaterNotesShown {
 public:
  explicit LaterNotesShown(Trace* trace, bool shows = true) : trace_(trace), before_(trace->shown().later) {
    Set(shows);
  }
  ~LaterNotesShown() { Set(before_); }
  LaterNotesShown(const LaterNotesShown&) = delete;
  LaterNotesShown& operator=(const LaterNotesShown&) = delete;

 private:
  void Set(bool shows) { trace_->SetShown({shows, trace_->shown().memory}); }

  Trace* const trace_;
  const bool before_;
};

// While it lives, readings of the trace show records of kind kMemory too.
class MemoryShown {
 public:
  explicit MemoryShown(Trace* trace, bool shows = true) : trace_(trace), before_(trace->shown().memory) { Set(shows); }
  ~MemoryShown() { Set(before_); }
  MemoryShown(const MemoryShown&) = delete;
  MemoryShown& operator=(const MemoryShown&) = delete;

 private:
  void Set(bool shows) { trace_->SetShown({trace_->shown().later, shows}); }

  Trace* const trace_;
  const bool before_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_TRACE_H_
