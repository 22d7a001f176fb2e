// How the program ends, and the programs that it starts.

#ifndef TORCHTRACE_TRACER_PYTHON_PROGRAM_END_H_
#define TORCHTRACE_TRACER_PYTHON_PROGRAM_END_H_

#include <Python.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "tracer/launch/runtime_api.h"

namespace torchtrace {

// Processes that a traced program starts as new programs (subprocess, multiprocessing's
// spawn, os.system, os.posix_spawn): they are not traced, so the trace names them. Native
// functions stand in the few of Python's own that start them; nothing else costs more. What C
// code starts by itself isn't seen. Needs the GIL.

// The path that a str or bytes is; of anything else none: asking it could run the program's code.
std::optional<std::string> PathOf(PyObject* path);

// A file that can be executed.
bool IsProgram(const std::string& path);

// Once per process; while no session is on nothing is told.
void WatchStartedPrograms();

// `program` is started in place of this forked process.
void NoteStartedProgram(const std::string& program);

// The end of a traced program, however it comes: the script's end, sys.exit,
// os._exit, os.exec*, an exit() of C code, Ctrl-C. The hooks go after the last of the
// program's own atexit functions; the log gets its last words as late as the
// exit code is known, which is before the libraries' static destructors; and
// both happen once. A death by signal is fatal_signals.h.
//
// A forked child ends its own log by the same ways, and does nothing else.

struct ProgramEndOptions {
  // Before the interpreter is finalised; with the GIL. Once.
  std::function<void()> before_finalization;
  // As RuntimeRequest::ended; not called in a forked child.
  std::function<void(const RuntimeEnd&)> ended;
};

// Before Python is initialised, by the process that is traced; or by a process that is
// traced from here on, again for each session.
void WatchProcessExit(ProgramEndOptions options);
// From here on the program's end is nobody's affair.
void UnwatchProcessExit();

// After Python was initialised, best before the program starts. `signals`: deaths by signal
// are watched for too, so a handler that the program takes off is put back. Needs the GIL.
absl::Status WatchInterpreterExit(bool signals);

// The program has ended with this exit code: what Py_RunMain returned.
void ProgramReturned(int exit_code);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_PROGRAM_END_H_
