// What signals, and memory that runs out, do to verbs that only read and write files. `run` is
// not among them: there they are the program's.

#ifndef TORCHTRACE_CMD_CLI_ENDING_SIGNALS_H_
#define TORCHTRACE_CMD_CLI_ENDING_SIGNALS_H_

namespace torchtrace {

// A file that may not grow and a reader that has gone away become errors of the
// write, which are told like a full disk.
void MakeWritesFail();

// Ctrl-C, SIGTERM and a terminal that goes away take away what is unfinished
// (serialize/base/unfinished.h) before they end the process. To be called by the main
// thread before there are others and before anything unfinished is there; again after a fork.
void CleanUpOnSignals();

// For a process that becomes another program, which will call CleanUpOnSignals: they wait
// until then.
void HoldEndingSignals();

// Without memory the process takes away what is unfinished, says so and ends with kExitTrouble: what
// fails to allocate may stand in a destructor, where nothing may be thrown.
void EndWithoutMemory();

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_ENDING_SIGNALS_H_
