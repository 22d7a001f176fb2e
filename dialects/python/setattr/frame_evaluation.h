// Makes calls of Python functions from Python code go through the function's `vectorcall` pointer, where native entries
// are, and gives access to the running call.
//
// CPython 3.11 runs a call from bytecode to a Python function in the caller's C frame and ignores that pointer, unless
// a frame evaluation function (PEP 523) is set. Ours only calls CPython's own. Other versions use the pointer; there we
// need the function only for access to running calls.
//
// A program may notice that, from 3.11 on, each call uses C stack. Once a thread's frames have used an eighth of its
// stack, or 1 MiB, more than they would untraced, calls are made as CPython would make them, and 3.11's calls of Python
// functions are not seen.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_FRAME_EVALUATION_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_FRAME_EVALUATION_H_

#include <Python.h>

#include <string>
#include <utility>

#include "tracer/framework_dialect.h"
#include "tracer/record/export.h"

namespace torchtrace::python_dialect {

// Our function is set from the first Use to the last Release. Both need the GIL. If other code has set its function
// over ours, that stays and goes on calling ours.
void UseFrameEvaluation();
void ReleaseFrameEvaluation();

// A running call of a Python function: the innermost on its thread. Returns borrowed references.
class TORCHTRACE_EXPORT RunningCall {
 public:
  PyObject* Code() const;
  // A function with that code, null if there is none: see FunctionOf in tracer/cpython/frames.h.
  PyObject* Function() const;
  // Its local variables, parameters first; null for one that has no value.
  PyObject* Local(Py_ssize_t index) const;

 private:
  friend bool InnermostCall(RunningCall* call);
  const void* frame_ = nullptr;
};
// False if the call is unknown: there is no frame, or our function doesn't evaluate it. Needs the GIL.
TORCHTRACE_EXPORT bool InnermostCall(RunningCall* call);
// After InnermostCall has returned true: calls `ended` when that call ends, with its result; null means that a Python
// error is set. Use it once for each call.
TORCHTRACE_EXPORT void WhenInnermostCallEnds(void (*ended)(PyObject* result));

// Sees all evaluated frames: calls of functions, bodies of modules and classes, steps of generators. `frame`: an
// InterpreterFrame, see tracer/cpython/frames.h.
struct FrameObserver {
  // Called before the frame. `outermost`: our function evaluates no other frame on the thread.
  int (*begin)(const void* frame, bool outermost);
  // `begun`: what `begin` returned, 0 if it wasn't called. `result`: null means that a Python error is set.
  void (*end)(const void* frame, int begun, PyObject* result);
};
// Whether our function evaluates a frame on this thread.
bool FrameIsEvaluated();
// Sets the only observer; null removes it, but its `end` is still called for frames that have begun. Never freed.
void ObserveFrames(const FrameObserver* observer);

// Sets our function again if other code, which used the only slot for its own, has put CPython's there.
TORCHTRACE_EXPORT void KeepFrameEvaluation();

// A framework's compiler uses the same slot: it sets its own function while a thread runs compiled code, and afterwards
// restores the previous one, or none. In the latter case this hook sets ours again.
// One at a time in a process.
class TORCHTRACE_EXPORT FrameSlotHook : public TracingHook {
 public:
  // `level`: one that needs the hook. `module`, which is imported, has a builtin `set_eval_frame`, of one argument or
  // of any (METH_VARARGS | METH_KEYWORDS).
  FrameSlotHook(int level, std::string module) : level_(level), module_(std::move(module)) {}
  int level() const override { return level_; }
  std::string name() const override { return "frame slot"; }
  absl::Status Install() override;
  void Uninstall() override;

 private:
  const int level_;
  const std::string module_;
};

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_FRAME_EVALUATION_H_
