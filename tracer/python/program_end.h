// Watches how the program ends, and the programs that it starts.

#ifndef TORCHTRACE_TRACER_PYTHON_PROGRAM_END_H_
#define TORCHTRACE_TRACER_PYTHON_PROGRAM_END_H_

#include <Python.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "tracer/launch/runtime_api.h"

namespace torchtrace {

// The path in a str or bytes; nullopt for anything else, as asking it could run the program's code.
std::optional<std::string> PathOf(PyObject* path);

// Whether the path is a file that can be executed.
bool IsProgram(const std::string& path);

// Watches processes that the program starts as new programs (subprocess, multiprocessing's spawn, os.system,
// os.posix_spawn): they are not traced, so the trace lists them. Replaces the few Python functions that start them by
// native ones, which costs nothing elsewhere. Doesn't see what C code starts by itself. Call it once per process;
// outside of sessions nothing is recorded. Needs the GIL.
void WatchStartedPrograms();

// Records that `program` is started, in a new process or in place of this forked one.
void NoteStartedProgram(const std::string& program);

// The end of a traced program, in any way: the script's end, sys.exit, os._exit, os.exec*, an exit() of C code, Ctrl-C.
// The hooks are removed after the last of the program's own atexit functions; the log gets its last words when the exit
// code is known, before the libraries' static destructors. Both happen once. For deaths by signal, see fatal_signals.h.
//
// A forked child ends its own log in the same ways.
struct ProgramEndOptions {
  // Called once before the interpreter is finalised, with the GIL.
  std::function<void()> before_finalization;
  // Like RuntimeRequest::ended; not called in a forked child.
  std::function<void(const RuntimeEnd&)> ended;
  // Called once in each forked child that ends in one of these ways.
  std::function<void()> fork_ended;
};

// Call it in the traced process, before Python is initialised; or in a process that is traced from here on, again for
// each session.
void WatchProcessExit(ProgramEndOptions options);
// From here on the program's end is ignored.
void UnwatchProcessExit();

// Call it after Python was initialised, best before the program starts. `signals`: deaths by signal are watched too, so
// restores our handler if the program resets it. Needs the GIL.
absl::Status WatchInterpreterExit(bool signals);

// Call it when the program has ended, with the exit code that Py_RunMain returned. Returns the one to exit with.
int ProgramReturned(int exit_code);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_PROGRAM_END_H_
