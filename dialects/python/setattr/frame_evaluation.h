// A frame evaluation function (PEP 523) that only calls CPython's own. Every call of a Python function costs more while
// it is set, so it is only used where nothing else will do:
//
// - On CPython 3.11 for native entries: there a call from bytecode to a Python function ignores the function's
//   `vectorcall` pointer, where the entries are, unless such a function is set.
// - Before 3.12 for running_calls.h.
// - For level 3, which sees all frames.
//
// A program may notice that, from 3.11 on, each call uses C stack (stack_use.h).

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_FRAME_EVALUATION_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_FRAME_EVALUATION_H_

#include <Python.h>

#include <string>
#include <utility>

#include "serialize/model/levels.h"
#include "tracer/cpython/objects.h"
#include "tracer/framework_dialect.h"
#include "tracer/record/export.h"

namespace torchtrace::python_dialect {

// Our function is set from the first Use to the last Release. Both need the GIL. If other code has set its function
// over ours, that stays and goes on calling ours.
void UseFrameEvaluation();
void ReleaseFrameEvaluation();

// Whether a level needs it.
inline constexpr bool NeedsFrameEvaluation(int level) {
  return level == kFrameLevel || kCallsSkipVectorcall || (level == kFunctionLevel && !kFunctionsAreWatched);
}

// The frame that our function evaluates innermost on this thread, an InterpreterFrame; null: none.
const void* EvaluatedFrame();
// Calls `ended` when that frame ends, with its result; null means that a Python error is set.
void WhenEvaluatedFrameEnds(void (*ended)(PyObject* result));

// Sees all evaluated frames: calls of functions, bodies of modules and classes, steps of generators. `frame`: an
// InterpreterFrame, see tracer/cpython/frames.h.
struct FrameObserver {
  // Called before the frame. `outermost`: our function evaluates no other frame on the thread.
  int (*begin)(const void* frame, bool outermost);
  // `begun`: what `begin` returned, 0 if it wasn't called. `result`: null means that a Python error is set.
  void (*end)(const void* frame, int begun, PyObject* result);
};
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
