// The Python stack of a thread.

#ifndef TORCHTRACE_TRACER_PYTHON_PYTHON_STACK_H_
#define TORCHTRACE_TRACER_PYTHON_PYTHON_STACK_H_

// Python.h first, as it demands.
#include <Python.h>

#include <memory>
#include <string>
#include <vector>

#include "tracer/record/recorder.h"

namespace torchtrace {

// Makes ThreadStacks of Python: each walks its own thread's frames, and finds again what it
// has seen before by comparing addresses.
//
// A code object's address means the same for as long as the object lives: those that were
// seen are held, once for all threads, until ReleaseHeldCode or until they are too many.

// `libraries`: the packages and modules whose code is the traced library's. Needs no GIL.
std::unique_ptr<ThreadStack> MakePythonStack(std::vector<std::string> libraries);

// Needs the GIL. Any thread may go on taking stacks.
void ReleaseHeldCode();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_PYTHON_STACK_H_
