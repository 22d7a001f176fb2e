// Closes the log when the program dies of a signal. A handler stands where the
// signal's action is the default one; it stores the log's last words, writes one
// line, puts the default action back and lets the signal kill the process, core
// dump included. Python and the program never see it: what they ask for was
// read before, what they set replaces it, and exec resets it.

#ifndef TORCHTRACE_TRACER_RECORD_FATAL_SIGNALS_H_
#define TORCHTRACE_TRACER_RECORD_FATAL_SIGNALS_H_

#include "tracer/record/export.h"

namespace torchtrace {

// After Python was initialised, in the main thread. `message` is written to
// standard error by the calling process (not by its forked children) and must
// live on; null: nothing is written.
void WatchFatalSignals(const char* message);

// The program has set this signal's action. What counts is the default one, of a signal that it
// dies of, SIGINT too; of SIGBUS any handler, which the log's bus errors must not reach. Async-signal-safe.
void WatchSignalAgain(int signal);

// Puts ours before the handlers that a shared library installed when it was imported, so that the log is closed before
// they run. They must end the process. `library`: the end of its path. Does nothing before WatchFatalSignals.
TORCHTRACE_EXPORT void WatchHandlersOf(const char* library);

// From here on another message; null when the end of the run has been told.
void ChangeFatalSignalMessage(const char* message);

// A log that is cut under the program, or whose disk is gone, makes our own stores a SIGBUS:
// that stops recording and nothing else. Any other goes where it went before.
// WatchFatalSignals does it too where SIGBUS has its default action.
void WatchBusErrors();
void UnwatchBusErrors();
// The handler that stands is the one that hands on.
bool IsWatchingBusErrors();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_FATAL_SIGNALS_H_
