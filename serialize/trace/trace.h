// A trace as its readers see it: the processes of a run with what their metadata tells, and their calls in program
// order, wherever they were read from. Logs are opened by OpenLogs (log_trace.h), files of any format by OpenTrace
// (open_trace.h). Nothing here throws.

#ifndef TORCHTRACE_SERIALIZE_TRACE_TRACE_H_
#define TORCHTRACE_SERIALIZE_TRACE_TRACE_H_

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
#include "serialize/trace/tables.h"

namespace torchtrace {

// What the metadata of a process tells, as plain data with checked types, parsed once for all
// readers. Metadata may be damaged, missing or anybody's; what has another type than expected
// counts as missing. docs/FORMAT.md lists the keys. Who copies metadata copies the JSON.

// A program that a traced one started in a process of its own, which was not traced.
struct StartedProgram {
  bool python = false;
  uint64_t count = 0;
};

// Which rank a process has, of how many.
struct ProcessRank {
  std::optional<int64_t> rank;
  std::optional<int64_t> world_size;
};

struct ProcessMetadata {
  // Texts are empty where they are missing.
  std::string role;
  std::string dialect;
  std::string host;
  std::optional<int64_t> pid;
  // As it is written there, else as torchrun, Open MPI, PMI or Slurm set it in the environment; none where the number
  // can't be one.
  ProcessRank ranked;
  std::optional<std::string> cwd;
  std::map<std::string, std::string, std::less<>> package_versions;

  // Where it was copied from: the log, and its run.
  bool has_source = false;
  std::string source;
  std::string label;

  // What was asked for.
  std::vector<int> levels;
  std::optional<std::string> stacks;
  std::optional<std::string> stack_format;

  bool has_clock = false;
  std::optional<int64_t> origin_realtime_ns;

  bool paused = false;  // for some of the time

  // How it ended.
  std::optional<int64_t> exit_code;
  std::optional<int64_t> signal;
  bool program_goes_on = false;        // its trace was closed before its end
  std::optional<int64_t> duration_ns;  // from its first record to its end
  std::string stopped;                 // why tracing stopped before that

  // What isn't there.
  uint64_t getters = 0;          // calls of property getters that were left out
  bool getters_unknown = false;  // nobody could count them: it died of a signal
  std::map<std::string, uint64_t> cut;
  std::vector<std::string> not_seen;
  std::map<std::string, StartedProgram> started;  // by the program's path

  // The version of that package; empty where it isn't known.
  std::string PackageVersion(std::string_view package) const;
};

ProcessMetadata ParseProcessMetadata(const nlohmann::json& metadata);

// A trace as its readers see it: the processes of a run, and their calls in program order, wherever they were
// read from. Logs are opened by OpenLogs (log_trace.h), files of any format by OpenTrace (open_trace.h). Nothing
// here throws.

// A ReadingObserver is told how far the reading of a trace has come: for a person who
// waits. Each pass over a trace begins anew.

class ReadingObserver {
 public:
  enum Unit : uint8_t { kBytes, kCalls };

  virtual ~ReadingObserver() = default;

  // Now and then, from the thread that reads. `total` is 0 when it isn't known.
  virtual void OnRead(Unit unit, uint64_t done, uint64_t total) = 0;
};

// What a log lost or lacks, told exactly where it can be known.

struct Damage {
  std::vector<std::string> sentences;  // one for each thing found, with its byte offset
  uint64_t lost_calls = 0;             // calls that were recorded and can't be read
  uint64_t lost_bytes = 0;
  bool lost_calls_exact = true;  // false: at least lost_calls
};

// "no calls", "1 call", "at least 3 calls", "an unknown number of calls".
std::string CountLostCalls(uint64_t lost_calls, bool exact);

// A trace as its readers see it: the processes of a run, and their calls in program
// order, wherever they were read from. Logs are opened by OpenLogs (log_trace.h), files of
// any format by OpenTrace (import/open_trace.h). Nothing here throws.

// ConfigId and VariantId number the whole trace's configurations by content, in
// the order in which its processes' logs define them.
inline constexpr uint32_t kLostId = UINT32_MAX;  // none
inline constexpr uint64_t kNoCall = UINT64_MAX;

struct ThreadInfo {
  uint64_t number = 0;  // in its process, from 0, in order of first call
  uint64_t os_id = 0;
  std::string name;
  uint64_t calls = 0;
};

struct ProcessInfo {
  std::string path;                                // of the log file
  std::shared_ptr<const nlohmann::json> metadata;  // all metadata frames merged
  ProcessMetadata known;                           // the same, as far as readers know it
  bool closed = false;                             // it ended in order, and said how in metadata["end"]
  uint64_t calls = 0;
  uint64_t open_calls = 0;  // of `calls`, those whose end isn't in the log
  uint64_t file_bytes = 0;
  uint64_t event_bytes = 0;  // of enter, leave and raise records
  uint64_t definition_bytes = 0;
  std::map<std::string, uint64_t> dropped;  // calls seen and not recorded, by reason
  std::vector<ThreadInfo> threads;          // by number
  Damage damage;

  // Sets `metadata` and `known`.
  void SetMetadata(std::shared_ptr<const nlohmann::json> json);
};

// The thread of that number; null when the process has none.
const ThreadInfo* FindThread(const ProcessInfo& process, uint64_t number);

class LogReader;

// A process of a log.
struct LogSource {
  const LogReader* log = nullptr;  // the trace's; null: it was read from something else
  uint32_t process = 0;            // index into log->processes()
};

enum class CallOutcome : uint8_t { kReturned, kRaised, kNeverReturned };

// One step of the trace in program order: a call's entry or its end. An end
// whose entry isn't in the trace (a child forked inside a call returns from it;
// the entry was lost) is not shown: every end shown was entered before.
struct CallRecord {
  enum Kind : uint8_t { kEnter, kLeave, kRaise } kind = kEnter;
  uint8_t level = 0;
  uint32_t process = 0;       // index into processes()
  uint32_t thread = 0;        // ThreadInfo::number in that process
  uint32_t depth = 0;         // calls open around it on its thread, those without an entry too
  ConfigId config = kLostId;  // leave and raise: of the call they end
  VariantId variant = kLostId;
  uint64_t call = 0;          // number of the call in the trace, from 0, by entry; leave: its entry's
  uint64_t count = 1;         // of Trace::ReadCounted: so many equal calls, one after the other
  uint32_t tags = kNoTags;    // enter: Trace::tags
  StackId stack = kNoStack;   // enter: Trace::stacks; where it was called
  RecordFacts facts;          // enter, of level 4
  std::string_view notes;     // enter: on its tensors (tensor_notes.h); valid during the visit
  CallResult result;          // leave: what it returned, where that was recorded; valid during the visit
  uint64_t parent = kNoCall;  // innermost open call around it; kNoCall: none, or its entry isn't in the trace
  // CLOCK_MONOTONIC of the machine it ran on; of a process whose metadata has no
  // clock, a number that only grows.
  int64_t time_ns = 0;
  int64_t duration_ns = 0;     // leave and raise
  std::string_view exception;  // raise: the type's name; valid during the visit

  // Of all that it counts; below a sum that could overflow.
  int64_t total_duration_ns() const {
    constexpr int64_t kMaxNs = 1'000'000'000'000'000'000;
    int64_t product;
    if (count > kMaxNs || __builtin_mul_overflow(duration_ns, static_cast<int64_t>(count), &product)) return kMaxNs;
    return product < kMaxNs ? product : kMaxNs;
  }
};

class Trace {
 public:
  virtual ~Trace() = default;

  // Calls the visitor for every record, ordered by time over all threads and
  // processes (log_metadata.h), and on one thread in the order written. May be called again:
  // ids and numbers are the same each time. Fills in what counting can tell
  // about processes(). A visitor's error ends the reading and is returned.
  using Visitor = std::function<absl::Status(const CallRecord&)>;
  virtual absl::Status Read(const Visitor& visitor) = 0;

  // The same, but calls of which the trace only knows how many there were come as one
  // record with a count; Read shows each, and fails where there are too many for that.
  virtual absl::Status ReadCounted(const Visitor& visitor) = 0;

  // The same counts per variant without times or order: several times faster.
  // Returns calls per VariantId. The second time it only returns them again.
  virtual absl::StatusOr<std::vector<uint64_t>> Count() = 0;

  // Valid once Read or Count was called.
  virtual size_t config_count() const = 0;
  virtual size_t variant_count() const = 0;
  virtual std::string_view identity(ConfigId config) const = 0;  // config.h
  virtual std::string_view facets(VariantId variant) const = 0;
  virtual ConfigId config_of(VariantId variant) const = 0;

  // What the program said of the calls that it made then, by CallRecord::tags: a JSON
  // object's text, or empty. Valid as long as the trace.
  virtual std::string_view tags(uint32_t id) const = 0;

  // The stacks that CallRecords name; it grows while Read runs. Valid as long as the trace.
  virtual const StackTable& stacks() const = 0;

  // In the order of log_metadata.h: by start. Path, metadata, closed and file_bytes are there from the
  // beginning, the rest once Read or Count was called.
  virtual const std::vector<ProcessInfo>& processes() const = 0;

  // Where a process of processes() stands, for TraceWriter::CopyCalls.
  virtual LogSource log_source(size_t process) const = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_TRACE_H_
