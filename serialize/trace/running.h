// Whether the processes of a trace still run, and which traces a process writes, as far as this machine tells.

#ifndef TORCHTRACE_SERIALIZE_TRACE_RUNNING_H_
#define TORCHTRACE_SERIALIZE_TRACE_RUNNING_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Whether a process still writes its log.
enum class Running : uint8_t { kNo, kYes, kUnknown };

// The processes of this machine, at one moment.
class ProcessTable {
 public:
  // Those that call themselves `pid`, in the containers that they are in.
  std::vector<pid_t> Called(int64_t pid);

 private:
  bool listed_ = false;
  std::multimap<int64_t, pid_t> in_containers_;
};

// It does as long as it maps the log. kUnknown: it is another machine's, or another user's.
Running IsRunning(const ProcessInfo& process, ProcessTable* processes);

// Asks the same of one process again and again, at little cost to it: whoever lists a process's mappings stops it from
// changing them for that time.
class ProcessWatch {
 public:
  // `grew`: the log has grown since the last time. `now_ns`: of CLOCK_MONOTONIC.
  Running Ask(const ProcessInfo& process, bool grew, int64_t now_ns, ProcessTable* processes);

 private:
  Running answer_ = Running::kUnknown;
  int64_t looked_ns_ = INT64_MIN;  // when its mappings were listed
  pid_t pid_ = 0;                  // as this process sees it; 0: it was never found
  uint64_t started_ = 0;           // StartOf(pid_)
};

// The folders, in order, to which the process `pid` writes its trace. If it writes none: those of the programs that it
// started, else of the nearest one that started it. NotFound, PermissionDenied.
absl::StatusOr<std::vector<std::string>> TraceFoldersOf(pid_t pid);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_RUNNING_H_
