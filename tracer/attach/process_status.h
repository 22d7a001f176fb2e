// What the kernel says of another process, in /proc: whether it can be attached to, what it does, which are below it.

#ifndef TORCHTRACE_TRACER_ATTACH_PROCESS_STATUS_H_
#define TORCHTRACE_TRACER_ATTACH_PROCESS_STATUS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace torchtrace {

struct ProcessStatus {
  pid_t process = 0;  // of which this is a thread
  std::string name;   // of its main thread
  char state = '?';   // of its main thread, as ps shows it
  pid_t tracer = 0;   // who traces it; 0: nobody
  uid_t user = 0;     // effective
  gid_t group = 0;
};

// NotFound: there is no such process.
absl::StatusOr<ProcessStatus> ReadProcessStatus(pid_t pid);
// Of the text of /proc/PID/status.
ProcessStatus ParseProcessStatus(std::string_view text);

// Its words; empty: it has ended, or is a thread of the kernel.
std::vector<std::string> CommandLineOf(pid_t pid);

// A variable of the environment that it was started with; empty: it has none.
std::string VariableOf(pid_t pid, std::string_view name);

// A mapping of a process's memory.
struct Mapping {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t offset = 0;
  bool readable = false;
  bool executable = false;
  std::string path;  // or [stack]
};
std::vector<Mapping> MappingsOf(pid_t pid);

// How many bytes its main thread's stack may have.
uint64_t StackLimitOf(pid_t pid);

// The processes below it, in the order in which they were started.
std::vector<pid_t> ProcessesBelow(pid_t pid);

// What keeps its main thread from running Python code: "it waits in the system call futex (a lock, or the end of a
// thread)".
std::string WhatItDoes(pid_t pid);

// FailedPrecondition, with a sentence that says what to do, where it is known beforehand that nobody can attach to it:
// it has ended, is stopped, is traced, or another user's.
absl::Status CheckAttachable(pid_t pid, const ProcessStatus& status);

// Why the kernel refused access to it: what `error` (errno) means here, and what to do.
absl::Status WhyRefused(pid_t pid, int error);
// The same; `yama`: the content of /proc/sys/kernel/yama/ptrace_scope, empty if there is none.
std::string DescribeRefusal(pid_t pid, int error, std::string_view yama);

// What this thread writes from now on belongs to the process's user, and is written with that user's rights. For root.
void WriteAsUserOf(const ProcessStatus& status);

// FailedPrecondition if a file has another content, or none, where the process looks for it: it is in a container.
absl::Status CheckSeesFile(pid_t pid, const std::string& path);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_ATTACH_PROCESS_STATUS_H_
