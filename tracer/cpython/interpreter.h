// What CPython 3.10 to 3.14 keep once per interpreter: the objects that its garbage collector tracks, and the callables
// that the specialising interpreter has hard-coded. All need the GIL.

#ifndef TORCHTRACE_TRACER_CPYTHON_INTERPRETER_H_
#define TORCHTRACE_TRACER_CPYTHON_INTERPRETER_H_

// Python.h first, as it demands.
#include <Python.h>

#include <vector>

namespace torchtrace {

// All objects that may be part of a cycle: functions, descriptors, modules, the program's types. Borrowed; creates and
// frees no object. Empty while the collector runs.
// Exported to the modules that the runtime library loads.
__attribute__((visibility("default"))) std::vector<PyObject*> CollectedObjects();

// Since CPython 3.11, a call site that has run some times executes `len`, `isinstance` and `list.append` itself and no
// longer calls their C functions. These are the places where the interpreter keeps the three to recognise them: if a
// place is null, they are called like all others. Empty before 3.11, and if the places aren't found.
std::vector<PyObject**> CallablesKnownByHeart();

// Whether the interpreter does the same for calls of this class with one argument, which can't be prevented.
bool IsClassKnownByHeart(const PyTypeObject* type);

// Whether daemon threads go on when the interpreter has ended, with the states of theirs that it has freed.
inline constexpr bool kThreadsOutliveTheirStates = PY_VERSION_HEX < 0x030E0000;

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_CPYTHON_INTERPRETER_H_
