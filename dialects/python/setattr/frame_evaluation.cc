#include "dialects/python/setattr/frame_evaluation.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dialects/python/setattr/attribute_path.h"
#include "dialects/python/setattr/hidden_types.h"
#include "dialects/python/setattr/stack_use.h"
#include "tracer/cpython/frames.h"
#include "tracer/python/python_patch.h"
#include "tracer/record/recorder.h"
#include "tracer/record/static_tls.h"

namespace torchtrace::python_dialect {

// See WhenEvaluatedFrameEnds.
struct AwaitedFrame {
  const InterpreterFrame* frame;
  void (*ended)(PyObject* result);
  AwaitedFrame* outer;
};
struct ThreadFrames {
  const InterpreterFrame* evaluated = nullptr;  // the innermost frame that Evaluate evaluates
  AwaitedFrame* awaited = nullptr;
};
constinit thread_local ThreadFrames t_frames TORCHTRACE_STATIC_TLS;

namespace {

int g_evaluation_users = 0;

const FrameObserver* g_observer = nullptr;             // the current one
void (*g_end)(const void*, int, PyObject*) = nullptr;  // of the last one, even if it was removed

PyObject* Evaluate(PyThreadState* thread, InterpreterFrame* frame, int throwing);

bool IsSet(PyInterpreterState* interpreter) { return _PyInterpreterState_GetEvalFrameFunc(interpreter) == Evaluate; }

// Calls that begin before this one returns, on any thread, use no C stack.
[[gnu::noinline]] PyObject* EvaluateDeep(PyThreadState* thread, InterpreterFrame* frame, int throwing) {
  PyInterpreterState* const interpreter = PyThreadState_GetInterpreter(thread);
  const bool ours = IsSet(interpreter);
  if (ours) {
    _PyInterpreterState_SetEvalFrameFunc(interpreter, _PyEval_EvalFrameDefault);
    NoteTooMuchStack();
  }
  PyObject* const result = _PyEval_EvalFrameDefault(thread, frame, throwing);
  if (ours) KeepFrameEvaluation();
  return result;
}

PyObject* Evaluate(PyThreadState* thread, InterpreterFrame* frame, int throwing) {
  ThreadFrames& frames = t_frames;
  const InterpreterFrame* const around = std::exchange(frames.evaluated, frame);
  StackUse use(StackUse::kEvaluation);
  const int begun = g_observer == nullptr ? 0 : g_observer->begin(frame, around == nullptr);
  PyObject* result;
  if (use.TooMuch() || g_evaluation_users == 0) [[unlikely]] {
    // Other code that had kept our function has set it again since it was released.
    if (g_evaluation_users == 0 && IsSet(PyThreadState_GetInterpreter(thread))) {
      _PyInterpreterState_SetEvalFrameFunc(PyThreadState_GetInterpreter(thread), _PyEval_EvalFrameDefault);
    }
    result = EvaluateDeep(thread, frame, throwing);
  } else {
    result = _PyEval_EvalFrameDefault(thread, frame, throwing);
  }
  use.End();
  frames.evaluated = around;
  if (frames.awaited != nullptr && frames.awaited->frame == frame) [[unlikely]] {
    const std::unique_ptr<AwaitedFrame> awaited(std::exchange(frames.awaited, frames.awaited->outer));
    awaited->ended(result);
  }
  if (g_end != nullptr) g_end(frame, begun, result);
  return result;
}

}  // namespace

const void* EvaluatedFrame() { return t_frames.evaluated; }

void WhenEvaluatedFrameEnds(void (*ended)(PyObject* result)) {
  // nothrow: an exception would pass through Python's C code.
  auto* const awaited = new (std::nothrow) AwaitedFrame{t_frames.evaluated, ended, t_frames.awaited};
  if (awaited == nullptr) {
    Recorder::Get()->Stop(kNoMemory);
    return ended(nullptr);
  }
  t_frames.awaited = awaited;
}

void ObserveFrames(const FrameObserver* observer) {
  g_observer = observer;
  if (observer != nullptr) g_end = observer->end;
}

void KeepFrameEvaluation() {
  PyInterpreterState* const interpreter = PyInterpreterState_Get();
  if (g_evaluation_users > 0 && _PyInterpreterState_GetEvalFrameFunc(interpreter) == _PyEval_EvalFrameDefault) {
    _PyInterpreterState_SetEvalFrameFunc(interpreter, Evaluate);
  }
}

void UseFrameEvaluation() {
  ++g_evaluation_users;
  KeepFrameEvaluation();
  if (!kMakesUnevaluated) return;
  ForEachSubclass(&PyBaseObject_Type, HideMaking);
  WatchNewTypes([](PyTypeObject* type) {
    if (g_evaluation_users > 0) HideMaking(type);
  });
}

void ReleaseFrameEvaluation() {
  if (--g_evaluation_users > 0) return;
  PyInterpreterState* const interpreter = PyInterpreterState_Get();
  if (IsSet(interpreter)) _PyInterpreterState_SetEvalFrameFunc(interpreter, _PyEval_EvalFrameDefault);
}

namespace {

BuiltinPatch g_set_eval_frame;

PyObject* SetWithOne(PyObject* self, PyObject* callback) {
  PyObject* const before = g_set_eval_frame.original<PyCFunction>()(self, callback);
  KeepFrameEvaluation();
  return before;
}

PyObject* SetWithAny(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* const before = g_set_eval_frame.original<PyCFunctionWithKeywords>()(self, args, kwargs);
  KeepFrameEvaluation();
  return before;
}

}  // namespace

absl::Status FrameSlotHook::Install() {
  constexpr char kFunction[] = "set_eval_frame";
  const bool installed =
      g_set_eval_frame.Install(module_.c_str(), kFunction, METH_O, reinterpret_cast<void*>(SetWithOne)) ||
      g_set_eval_frame.Install(module_.c_str(), kFunction, METH_VARARGS | METH_KEYWORDS,
                               reinterpret_cast<void*>(SetWithAny));
  if (!installed) return absl::InternalError(absl::StrCat(module_, ".", kFunction, " is not as expected"));
  StartKeepingBuiltins();
  KeepBuiltin(g_set_eval_frame.definition(), g_set_eval_frame.original<PyCFunction>());
  return absl::OkStatus();
}

void FrameSlotHook::Uninstall() {
  if (g_set_eval_frame.definition() == nullptr) return;
  g_set_eval_frame.Restore();
  StopKeepingBuiltins();
}

}  // namespace torchtrace::python_dialect
