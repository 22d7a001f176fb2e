// Runs a command to its end and keeps what it wrote. It reads nothing: its
// standard input is /dev/null. Thread-safe.

#ifndef TORCHTRACE_TRACER_LAUNCH_RUN_COMMAND_H_
#define TORCHTRACE_TRACER_LAUNCH_RUN_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

struct CommandResult {
  int exit_code = 0;  // 128 + the signal when it died of one
  std::string standard_output;
  std::string standard_error;
};

// `command[0]` without a slash is looked for on PATH.
absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& command);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_LAUNCH_RUN_COMMAND_H_
