// What the kernel says of a process in /proc/PID/stat.

#ifndef TORCHTRACE_SERIALIZE_BASE_PROC_STAT_H_
#define TORCHTRACE_SERIALIZE_BASE_PROC_STAT_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace torchtrace {

struct ProcStat {
  pid_t parent = 0;
  uint64_t started = 0;  // in clock ticks since the machine was; the process id alone may be used again
};

// Nullopt: there is no such process.
std::optional<ProcStat> ReadProcStat(pid_t pid);

// 0: it has none, or has ended.
pid_t ParentOf(pid_t pid);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_PROC_STAT_H_
