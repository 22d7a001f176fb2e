// Processes that a traced program starts as new programs (subprocess, multiprocessing's
// spawn, os.system, os.posix_spawn): they are not traced, so the trace names them. Native
// functions stand in the few of Python's own that start them; nothing else costs more. What C
// code starts by itself isn't seen. Needs the GIL.

#ifndef TORCHTRACE_TRACER_PYTHON_STARTED_PROGRAMS_H_
#define TORCHTRACE_TRACER_PYTHON_STARTED_PROGRAMS_H_

#include <Python.h>

#include <optional>
#include <string>

namespace torchtrace {

// The path that a str or bytes is; of anything else none: asking it could run the program's code.
std::optional<std::string> PathOf(PyObject* path);

// A file that can be executed.
bool IsProgram(const std::string& path);

// Once per process; while no session is on nothing is told.
void WatchStartedPrograms();

// `program` is started in place of this forked process.
void NoteStartedProgram(const std::string& program);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_STARTED_PROGRAMS_H_
