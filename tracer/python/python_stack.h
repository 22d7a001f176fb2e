// Takes the Python stacks of threads.

#ifndef TORCHTRACE_TRACER_PYTHON_PYTHON_STACK_H_
#define TORCHTRACE_TRACER_PYTHON_PYTHON_STACK_H_

// Python.h first, as it demands.
#include <Python.h>

#include <memory>
#include <string>
#include <vector>

#include "tracer/record/recorder.h"

namespace torchtrace {

// Makes a ThreadStack that walks its own thread's Python frames, and recognises what it has seen before by comparing
// addresses. To keep these valid, we own a reference to each code object that was seen, once for all threads, until
// ReleaseHeldCode or until there are too many. `libraries`: the packages and modules of the traced library. Needs no
// GIL.
std::unique_ptr<ThreadStack> MakePythonStack(std::vector<std::string> libraries);

// Needs the GIL. Any thread may continue to take stacks.
void ReleaseHeldCode();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_PYTHON_STACK_H_
