// Makes calls of Python functions from Python code pass through the function's `vectorcall`
// pointer, where native entries stand, and tells of the call that is under way.
//
// CPython 3.11 runs a call from bytecode to a Python function within the caller's C frame and does
// not look at that pointer, unless a frame evaluation function (PEP 523) is set. This one only hands
// on to CPython's own. Other versions look at the pointer; there it tells of calls that are under way.
//
// What a program may notice, from 3.11 on, is that each call takes C stack. Where a thread's frames
// have taken an eighth of its stack, or 1 MiB, that they would not take untraced, calls are made as
// CPython would, and in 3.11 those of Python functions are not seen.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_FRAME_EVALUATION_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_FRAME_EVALUATION_H_

#include <Python.h>

#include <string>
#include <utility>

#include "tracer/framework_dialect.h"
#include "tracer/record/export.h"

namespace torchtrace::python_dialect {

// From the first Use to the last Release. All need the GIL. Whoever put a function of their own over
// ours keeps it, and goes on calling ours.
void UseFrameEvaluation();
void ReleaseFrameEvaluation();

// A call of a Python function that is under way: the innermost on its thread.
// All borrowed.
class TORCHTRACE_EXPORT RunningCall {
 public:
  PyObject* Code() const;
  // One of that code, null where there is none: see FunctionOf in tracer/cpython/frames.h.
  PyObject* Function() const;
  // Its local variables, parameters first; null for one that has no value.
  PyObject* Local(Py_ssize_t index) const;

 private:
  friend bool InnermostCall(RunningCall* call);
  const void* frame_ = nullptr;
};
// False where that can't be known: no frame, or the frame takes no C stack of its own. Needs the GIL.
TORCHTRACE_EXPORT bool InnermostCall(RunningCall* call);
// After InnermostCall has said true: has `ended` called when that call ends, with its result; null
// means that a Python error is set. Once for each call.
TORCHTRACE_EXPORT void WhenInnermostCallEnds(void (*ended)(PyObject* result));

// Whoever sees all frames that are evaluated: calls of functions, of the bodies of modules and classes, steps of
// generators. `frame`: an InterpreterFrame, see tracer/cpython/frames.h.
struct FrameObserver {
  // Before it. `outermost`: no other frame on the thread that passes here.
  int (*begin)(const void* frame, bool outermost);
  // With what `begin` said, 0 if it wasn't asked, and the result; null means that a Python error is set.
  void (*end)(const void* frame, int begun, PyObject* result);
};
// Whether a frame that passes here is under way on the thread.
bool FrameIsEvaluated();
// From now on, until it is null; of those that have begun `end` is called in any case. Lives for ever, and there is
// only one.
void ObserveFrames(const FrameObserver* observer);

// Whoever had a function of their own in the one place there is may have put CPython's there.
TORCHTRACE_EXPORT void KeepFrameEvaluation();

// A framework's compiler wants the same place: it puts a function of its own there while a thread runs compiled code,
// and afterwards what stood there before, or none. This hook puts ours back where that was none.
// One at a time in a process.
class TORCHTRACE_EXPORT FrameSlotHook : public TracingHook {
 public:
  // `level`: of those that need it. `module`, which is imported, has a builtin `set_eval_frame`, of one argument or of
  // any (METH_VARARGS | METH_KEYWORDS).
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
