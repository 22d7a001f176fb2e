// The trace that processes are writing, as verbs take it: by a process or by its folder.

#ifndef TORCHTRACE_CMD_READING_RUNNING_TRACE_H_
#define TORCHTRACE_CMD_READING_RUNNING_TRACE_H_

#include <string>

#include "absl/status/statusor.h"

namespace torchtrace {

inline constexpr char kRunningTraceText[] =
    "A process that is traced, that started traced ones or that one of them started; or the output folder of a run";

// The folder that `what` names: itself, or the one to which a process with that number belongs.
absl::StatusOr<std::string> FindRunningTrace(const std::string& what);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_READING_RUNNING_TRACE_H_
