// Processes that a launcher of ranks starts, each a `torchtrace run`: `torchrun --no-python torchtrace run -o out
// a.py`.

#ifndef TORCHTRACE_CMD_RUN_LAUNCHED_JOB_H_
#define TORCHTRACE_CMD_RUN_LAUNCHED_JOB_H_

#include <string>

namespace torchtrace {

// The run's id that all processes of this machine have in common which torchrun's agent has started, also those that it
// starts again. Empty: there is no such agent.
std::string RunIdOfJob();

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_RUN_LAUNCHED_JOB_H_
