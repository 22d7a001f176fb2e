// Making traces from other traces: writing, filtering, merging.

#ifndef TORCHTRACE_SERIALIZE_EDIT_EDIT_H_
#define TORCHTRACE_SERIALIZE_EDIT_EDIT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "nlohmann/json_fwd.hpp"
#include "serialize/base/matching.h"
#include "serialize/trace/tables.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

class LogReader;

// Writes a log of many processes (format version 2: each frame names its process); LogWriter
// writes the log of a single, traced process. The calls come from any Trace, or as whole
// frames from another log. For merge, filter and make_trace; never used in a traced program.
// The file gets its name when Finish succeeds, and is removed otherwise. Memory grows with
// threads and configurations.
class TraceWriter {
 public:
  // `path` must not exist.
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Create(const std::string& path);
  virtual ~TraceWriter() = default;  // without Finish, removes the file

  // Returns the process's number, from 0. Writes the metadata verbatim (docs/FORMAT.md).
  // Times below are in units of its `clock`, or in nanoseconds without one: for calls of
  // a Trace, whose times are nanoseconds, use InNanoseconds(metadata).
  virtual absl::StatusOr<uint32_t> AddProcess(const nlohmann::json& metadata) = 0;

  // Names a thread before its first record; optional.
  virtual void NameThread(uint32_t process, uint64_t thread, uint64_t os_id, std::string_view name) = 0;

  // The records of one thread must be in program order, with times that don't decrease;
  // threads may interleave. `identity` and `facets` as in config.h. Leave and Raise return
  // FailedPrecondition on a thread without an open call.
  virtual absl::Status Enter(uint32_t process, uint64_t thread, uint64_t time, std::string_view identity,
                             std::string_view facets) = 0;
  // For all calls that the thread enters from now on: the program's tags, a JSON object's text or empty, and where it
  // is in its steps.
  virtual void Tag(uint32_t process, uint64_t thread, std::string_view json, const StepMarks& steps = {}) = 0;
  // For the next call that the thread enters: a stack of that table, or kNoStack.
  virtual void Stack(uint32_t process, uint64_t thread, const StackTable& stacks, StackId stack) = 0;
  // For the next call.
  virtual void Facts(uint32_t process, uint64_t thread, const RecordFacts& facts) = 0;
  // For the next call: notes on its tensors (tensor_notes.h).
  virtual void Notes(uint32_t process, uint64_t thread, std::string_view notes) = 0;
  virtual absl::Status Leave(uint32_t process, uint64_t thread, uint64_t time, const CallResult& result = {}) = 0;
  // `written`: notes on tensors that the call wrote (CallResult).
  virtual absl::Status Raise(uint32_t process, uint64_t thread, uint64_t time, std::string_view exception,
                             std::string_view written = {}) = 0;
  // Notes on an earlier call of the thread. `later.calls_since` counts calls of this log.
  virtual absl::Status Later(uint32_t process, uint64_t thread, uint64_t time, const LaterNotes& later) = 0;
  // Memory that the thread allocated or freed.
  virtual absl::Status Memory(uint32_t process, uint64_t thread, uint64_t time, const MemoryEvent& event) = 0;
  // `calls` of a configuration, at least 1, of which only the number is known.
  virtual absl::Status Count(uint32_t process, std::string_view identity, std::string_view facets, uint64_t calls) = 0;

  // Copies the intact frames of a process (an index into log.processes()) into a process of
  // this log, which must have no other calls, and the metadata of the original (more keys may
  // be added). Losses are reported in metadata["damage"]. `progress` is called now and then
  // with the bytes of `log` that were processed since the last call; an error stops the copying.
  using Progress = std::function<absl::Status(uint64_t bytes)>;
  virtual absl::Status CopyCalls(const LogReader& log, uint32_t log_process, uint32_t process,
                                 const Progress& progress = nullptr) = 0;

  // Writes everything buffered and gives the file its name. Nothing can be written after it.
  virtual absl::Status Finish() = 0;
};

// The metadata with its clock, if it has one, in nanoseconds of CLOCK_MONOTONIC, like the
// times of CallRecords.
nlohmann::json InNanoseconds(nlohmann::json metadata);

// The selected calls are kept.
struct FilterOptions : CallSelection {
  // Also keeps all calls around a kept call.
  bool with_parents = false;
  // Describes this filtering in the new trace's metadata: appended to its list
  // `filtered`, after earlier filterings.
  nlohmann::json description = nlohmann::json::object();
};

struct FilterReport {
  uint64_t read = 0;     // calls
  uint64_t kept = 0;     // of them, parents included
  uint64_t parents = 0;  // kept only because of the calls in them
};

// `torchtrace filter`: writes some calls of `trace` into `writer`, without calling Finish. They keep
// their processes, threads and times, get new numbers, and are nested in the innermost kept call
// around them. A call whose end is missing although its thread went on gets an end that says so:
// it raised `torchtrace.EndIsLost`.
//
// Reads the trace once; memory grows with configurations, threads and open calls. Only a condition on how
// calls end (duration, raised) needs another reading before that, and a bit for each call.
absl::StatusOr<FilterReport> FilterTrace(Trace* trace, const FilterOptions& options, TraceWriter* writer);

// Merging makes one log of many traces: of processes, ranks, runs, models. The log has
// the processes of each input, in the given order; ordering them by time is left to the
// reader (log_metadata.h), which makes merging associative. Frames of logs are copied
// verbatim, calls of other formats are rewritten. Memory grows with the configurations of
// the latter; one input is open at a time.
//
// The metadata of each process says where it came from: `source`, `label`, `rank`,
// `world_size` (docs/FORMAT.md). Values that an input already has are kept.

struct MergeInput {
  std::string path;   // anything that OpenTrace reads
  std::string label;  // empty: none
};

// `input` itself, or, if it is a folder of traces but not a trace, all traces in it, by name. NotFound,
// PermissionDenied or InvalidArgument name the path.
absl::StatusOr<std::vector<MergeInput>> ExpandMergeInput(const MergeInput& input);

// Opens every input, to report unreadable ones before anything is written. Does not find damage and other tools' syntax
// errors, and does not open standard input, which may be given only once.
absl::Status CheckMergeInputs(const std::vector<MergeInput>& inputs);

// The size of the logs, or of the file, at `path`; 0 if unknown.
uint64_t MergeInputBytes(const std::string& path);

// Writes the processes of `trace` into `writer`. `progress` as in TraceWriter.
absl::Status MergeTrace(Trace* trace, const std::string& label, TraceWriter* writer,
                        const TraceWriter::Progress& progress = nullptr);

// Merges the inputs, one after the other, into a log at `path`, which must not exist. `notes`
// gets a sentence, once, for each fact that an input's format can't express; `observer` follows the reading of inputs
// that can't be copied: standard input and other formats. All three may be null.
absl::Status MergeInputs(const std::vector<MergeInput>& inputs, const std::string& path,
                         const TraceWriter::Progress& progress = nullptr, std::vector<std::string>* notes = nullptr,
                         ReadingObserver* observer = nullptr);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EDIT_EDIT_H_
