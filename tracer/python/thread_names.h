// What the threading module calls the program's threads, read from its objects in memory: no Python code is called, and
// nothing is made.

#ifndef TORCHTRACE_TRACER_PYTHON_THREAD_NAMES_H_
#define TORCHTRACE_TRACER_PYTHON_THREAD_NAMES_H_

#include <Python.h>

#include <string>

#include "tracer/record/export.h"

namespace torchtrace {

// Of the calling thread, for RecorderOptions: as it is now where the thread has the GIL, else as it was when it was
// last kept. Empty: one that threading didn't start.
std::string PythonThreadName();

// Keeps the calling thread's name, for records that are written without the GIL. `started`: what a thread that begins
// is to run; null: it has begun. Needs the GIL.
TORCHTRACE_EXPORT void KeepThreadName(PyObject* started);

// Has the log tell the calling thread's name once more where it isn't that which was told. Needs the GIL.
TORCHTRACE_EXPORT void TellThreadName();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_THREAD_NAMES_H_
