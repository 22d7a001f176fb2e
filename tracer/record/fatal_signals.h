// Closes the log when the program dies of a signal. Our handler is installed where the signal's action is the default
// one; it writes the log's last words and one line on standard error, restores the default action and lets the signal
// kill the process, core dump included. Python and the program don't notice it: Python has read the signal's action
// before, an action that they set replaces it, and exec resets it.

#ifndef TORCHTRACE_TRACER_RECORD_FATAL_SIGNALS_H_
#define TORCHTRACE_TRACER_RECORD_FATAL_SIGNALS_H_

#include "tracer/record/export.h"

namespace torchtrace {

// Call it after Python was initialised, in the main thread. The calling process, but not its forked children, writes
// `message` to standard error; it must stay valid; null: nothing is written.
void WatchFatalSignals(const char* message);

// Call it when the program has set this signal's action. Installs our handler again over the default action of a fatal
// signal, SIGINT too; for SIGBUS also over a handler, which the log's bus errors must not reach. Async-signal-safe.
void WatchSignalAgain(int signal);

// Installs our handler before those that a shared library set when it was imported, so that the log is closed before
// they run. They must end the process. `library`: the end of its path. Does nothing before WatchFatalSignals.
TORCHTRACE_EXPORT void WatchHandlersOf(const char* library);

// Replaces the message; null when the end of the run has been reported.
void ChangeFatalSignalMessage(const char* message);

// If the log is truncated while the program runs, or its disk is gone, our own stores raise SIGBUS, which then only
// stops recording. All other bus errors go to the action that was set before. WatchFatalSignals does this too if SIGBUS
// has its default action.
void WatchBusErrors();
void UnwatchBusErrors();
// Whether the current SIGBUS handler is ours that passes other bus errors on.
bool IsWatchingBusErrors();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_FATAL_SIGNALS_H_
