// The threading module's names of the program's threads, read from its objects in memory without calling Python code or
// creating objects.

#ifndef TORCHTRACE_TRACER_PYTHON_THREAD_NAMES_H_
#define TORCHTRACE_TRACER_PYTHON_THREAD_NAMES_H_

#include <Python.h>

#include <string>

#include "tracer/record/export.h"

namespace torchtrace {

// The calling thread's name, for RecorderOptions: the current one if the thread has the GIL, else the one kept last.
// Empty: threading didn't start the thread.
std::string PythonThreadName();

// Keeps the calling thread's name, for records that are written without the GIL. `started`: what a new thread is about
// to run; null: it has begun. Needs the GIL.
TORCHTRACE_EXPORT void KeepThreadName(PyObject* started);

// Records the calling thread's name again if it has changed. Needs the GIL.
TORCHTRACE_EXPORT void TellThreadName();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_THREAD_NAMES_H_
