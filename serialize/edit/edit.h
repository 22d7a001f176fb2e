// Traces made of traces: written, filtered, merged.

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

// TraceWriter makes one log of many processes (format version 2: each frame names its
// process), where LogWriter makes the log of the one that is traced. Calls come
// from any Trace, or whole frames from another log. For merge, filter and
// make_trace; no call of it is on a traced program's way. The file appears under its
// name when Finish succeeds, and not at all otherwise. Memory goes with threads
// and configurations.

class LogReader;

class TraceWriter {
 public:
  // `path` must not exist.
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Create(const std::string& path);
  virtual ~TraceWriter() = default;  // without Finish: leaves nothing

  // Processes are numbered from 0. The metadata is written as it is (docs/FORMAT.md);
  // times below are in units of its `clock`, without one in nanoseconds. For calls
  // of a Trace, whose times are nanoseconds, use InNanoseconds(metadata).
  virtual absl::StatusOr<uint32_t> AddProcess(const nlohmann::json& metadata) = 0;

  // Names a thread before its first record; optional.
  virtual void NameThread(uint32_t process, uint64_t thread, uint64_t os_id, std::string_view name) = 0;

  // The records of one thread come in program order and with times that don't fall;
  // threads may take turns. `identity` and `facets` as in config.h. A thread that has
  // no call open can't leave one: FailedPrecondition.
  virtual absl::Status Enter(uint32_t process, uint64_t thread, uint64_t time, std::string_view identity,
                             std::string_view facets) = 0;
  // Goes with the calls that the thread enters from here on: a JSON object's text, or empty.
  virtual void Tag(uint32_t process, uint64_t thread, std::string_view json) = 0;
  // Goes with the next call that the thread enters: a stack of that table, or kNoStack.
  virtual void Stack(uint32_t process, uint64_t thread, const StackTable& stacks, StackId stack) = 0;
  // The same.
  virtual void Facts(uint32_t process, uint64_t thread, const RecordFacts& facts) = 0;
  // The same, on its tensors (tensor_notes.h).
  virtual void Notes(uint32_t process, uint64_t thread, std::string_view notes) = 0;
  virtual absl::Status Leave(uint32_t process, uint64_t thread, uint64_t time, const CallResult& result = {}) = 0;
  virtual absl::Status Raise(uint32_t process, uint64_t thread, uint64_t time, std::string_view exception) = 0;

  // Copies the frames of a process (an index into log.processes()) as they are, as far as they
  // can be trusted; into a process of this log that has no other calls and the metadata of
  // that one (more keys may be added). What is lost there is told in metadata["damage"].
  // `progress` is called now and then with the bytes of that log that were gone through
  // since; an error of it ends the copying.
  using Progress = std::function<absl::Status(uint64_t bytes)>;
  virtual absl::Status CopyCalls(const LogReader& log, uint32_t log_process, uint32_t process,
                                 const Progress& progress = nullptr) = 0;

  // Writes what is open, gives the file its name, and ends the writing.
  virtual absl::Status Finish() = 0;
};

// The metadata with its clock, if it has one, in nanoseconds of CLOCK_MONOTONIC: the
// times that CallRecords have.
nlohmann::json InNanoseconds(nlohmann::json metadata);

// Filter writes some calls of a trace into another one, as `torchtrace filter` does.
// Their processes, threads and times stay what they were; their numbers are new, and a
// call stands in the innermost kept call that it stood in.
//
// One reading; memory goes with configurations, threads and open calls. Only a
// condition on how calls end (duration, raised) needs another reading before, and
// a bit for each call.

// Kept is what is selected.
struct FilterOptions : CallSelection {
  // Keeps the calls around a kept call as well, whatever they are.
  bool with_parents = false;
  // What to say of the filtering in the new trace's metadata: an entry of the list
  // `filtered`, to which earlier filterings belong.
  nlohmann::json description = nlohmann::json::object();
};

struct FilterReport {
  uint64_t read = 0;     // calls
  uint64_t kept = 0;     // of them, parents included
  uint64_t parents = 0;  // kept only for the calls in them
};

// Reads `trace` and writes into `writer`, which is not finished. An entry whose end is missing
// though its thread went on gets one that says so: it raised `torchtrace.EndIsLost`.
absl::StatusOr<FilterReport> FilterTrace(Trace* trace, const FilterOptions& options, TraceWriter* writer);

// Merge makes one log of many traces: of processes, ranks, runs, models. The log has
// the processes of each input, in the order given; how they are ordered by time
// is the reader's work (log_metadata.h), so that merging is associative. Frames of logs
// are copied as they are, calls of other formats written anew; memory goes
// with the configurations of the latter, and one input is open at a time.
//
// The metadata of each process says where it came from: `source`, `label`, `rank`,
// `world_size` (docs/FORMAT.md). What an input says already is kept.

struct MergeInput {
  std::string path;   // anything that OpenTrace reads
  std::string label;  // empty: none
};

// The inputs that are meant by `input`: itself, or, when it is a folder that is no trace
// and holds some, each of them, by name. NotFound, PermissionDenied or InvalidArgument name the path.
absl::StatusOr<std::vector<MergeInput>> ExpandMergeInput(const MergeInput& input);

// Opens every input, so that what can't be read is said before anything is written:
// damage and other tools' syntax errors excepted, and standard input, which must be there once.
absl::Status CheckMergeInputs(const std::vector<MergeInput>& inputs);

// Bytes of the logs, or of the file, at `path`; 0 when that can't be known.
uint64_t MergeInputBytes(const std::string& path);

// Writes the processes of `trace` into `writer`. `progress` as in TraceWriter.
absl::Status MergeTrace(Trace* trace, const std::string& label, TraceWriter* writer,
                        const TraceWriter::Progress& progress = nullptr);

// All inputs, one after the other, into a log at `path`, which must not exist. `notes`
// gets what the formats of inputs can't say, each sentence once; `observer` is told of inputs that
// are read and not copied, standard input and other formats. Any of them may be null.
absl::Status MergeInputs(const std::vector<MergeInput>& inputs, const std::string& path,
                         const TraceWriter::Progress& progress = nullptr, std::vector<std::string>* notes = nullptr,
                         ReadingObserver* observer = nullptr);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EDIT_EDIT_H_
