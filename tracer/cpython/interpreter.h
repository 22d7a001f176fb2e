// What CPython 3.10 to 3.14 keep once for an interpreter: the objects that its collector knows, and the callables that
// the specialising interpreter knows by heart. All need the GIL.

#ifndef TORCHTRACE_TRACER_CPYTHON_INTERPRETER_H_
#define TORCHTRACE_TRACER_CPYTHON_INTERPRETER_H_

// Python.h first, as it demands.
#include <Python.h>

#include <vector>

namespace torchtrace {

// All objects that may be part of a cycle: functions, descriptors, modules, types of the program. Borrowed; none is
// made and none goes. Empty where the collector is at work.
// Offered to the modules that the runtime library loads.
__attribute__((visibility("default"))) std::vector<PyObject*> CollectedObjects();

// Since CPython 3.11 calls of `len`, `isinstance` and `list.append` that have run some times don't look at what these
// are defined as. Where the interpreter keeps them to tell that it calls them: with nothing there they are called as
// all others. Empty before 3.11, and where the place isn't found.
std::vector<PyObject**> CallablesKnownByHeart();

// Classes of which the same holds, and nothing can be done: called with one argument.
bool IsClassKnownByHeart(const PyTypeObject* type);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_CPYTHON_INTERPRETER_H_
