// Running calls of those Python functions that name a certain global: for a hook that learns from inside a call that it
// counts, and must know its arguments and its end.
//
// From 3.12 on, such functions get a `vectorcall` of ours when they are created (PyFunction_AddWatcher), which a
// program can't see; every other function keeps its full speed. Before that we need a frame evaluation function
// (frame_evaluation.h), which sees all calls.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_RUNNING_CALLS_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_RUNNING_CALLS_H_

#include <Python.h>

#include "absl/status/status.h"
#include "tracer/record/export.h"

namespace torchtrace::python_dialect {

// Watches the functions that name the global `name`, existing and future ones, until UnwatchCalls. Always the
// same name. Both need the GIL.
TORCHTRACE_EXPORT absl::Status WatchCalls(const char* name);
TORCHTRACE_EXPORT void UnwatchCalls();

// A running call of a watched function: the innermost call of any function on its thread. Returns borrowed references.
class TORCHTRACE_EXPORT RunningCall {
 public:
  // A function with the call's code, null if there is none: see FunctionOf in tracer/cpython/frames.h.
  PyObject* Function() const;
  // Its local variables, parameters first; null for one that has no value.
  PyObject* Local(Py_ssize_t index) const;

 private:
  friend bool InnermostCall(RunningCall* call);
  const void* frame_ = nullptr;
};
// False if the innermost call is of another function, or unknown. Needs the GIL.
TORCHTRACE_EXPORT bool InnermostCall(RunningCall* call);
// After InnermostCall has returned true: calls `ended` when that call ends, with its result; null means that a Python
// error is set. Use it once for each call.
TORCHTRACE_EXPORT void WhenInnermostCallEnds(void (*ended)(PyObject* result));

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_RUNNING_CALLS_H_
