// TraceWriter makes one log of many processes (format version 2: each frame names its
// process), where LogWriter makes the log of the one that is traced. Calls come
// from any Trace, or whole frames from another log. For merge, filter and
// make_trace; no call of it is on a traced program's way. The file appears under its
// name when Finish succeeds, and not at all otherwise. Memory goes with threads
// and configurations.

#ifndef TORCHTRACE_SERIALIZE_EDIT_TRACE_WRITER_H_
#define TORCHTRACE_SERIALIZE_EDIT_TRACE_WRITER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "serialize/trace/stack_table.h"

namespace torchtrace {

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
  virtual absl::Status Leave(uint32_t process, uint64_t thread, uint64_t time) = 0;
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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EDIT_TRACE_WRITER_H_
