// The exit codes of torchtrace's own making. `run` else exits as the program does.

#ifndef TORCHTRACE_CMD_CLI_EXIT_CODE_H_
#define TORCHTRACE_CMD_CLI_EXIT_CODE_H_

namespace torchtrace {

enum ExitCode : int {
  kExitOk = 0,
  kExitDifferent = 1,     // diff: the traces differ
  kExitBelow = 1,         // coverage: below the bar
  kExitTrouble = 2,       // of any kind, in every verb but run
  kExitNotStarted = 125,  // run: torchtrace failed before the program started
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_EXIT_CODE_H_
