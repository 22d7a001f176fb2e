// The program's signal handlers wait while Python code of ours runs in its main thread, which the program doesn't know
// of: an exception that one raises there would be lost, or would leave that code half done.

#ifndef TORCHTRACE_PYTHON_HELD_SIGNALS_H_
#define TORCHTRACE_PYTHON_HELD_SIGNALS_H_

// Python.h must come first.
#include <Python.h>

namespace torchtrace {

// From now on handlers that are Python objects are not called. For the main thread. What was raised while this began is
// passed on by ReleaseSignals.
void HoldSignals();

// Ends that. What came meanwhile is passed on in the program itself, as soon as `ours`, a frame of our code, has ended
// (null: it has): first `raised`, a list of exceptions of the program's handlers, then the handlers are called.
void ReleaseSignals(PyObject* raised, PyObject* ours);

}  // namespace torchtrace

#endif  // TORCHTRACE_PYTHON_HELD_SIGNALS_H_
