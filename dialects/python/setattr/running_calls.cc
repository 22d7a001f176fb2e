#include "dialects/python/setattr/running_calls.h"

#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "dialects/python/setattr/frame_evaluation.h"
#include "dialects/python/setattr/patches.h"
#include "tracer/cpython/frames.h"
#include "tracer/cpython/objects.h"
#include "tracer/record/recorder.h"

namespace torchtrace::python_dialect {
namespace {

PyObject* g_name = nullptr;  // interned; null: nothing is watched

bool NamesIt(PyCodeObject* code) {
  // Not the code of a module or class, which may import the name.
  if (g_name == nullptr || (code->co_flags & CO_NEWLOCALS) == 0) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
    if (PyTuple_GET_ITEM(code->co_names, i) == g_name) return true;  // names in code are interned
  }
  return false;
}

// By number, as greenlets leave and enter calls in any order.
struct WatchedCall {
  PyObject* function = nullptr;  // borrowed
  uint64_t number = 0;
};
struct Awaited {
  uint64_t number;
  void (*ended)(PyObject* result);
  Awaited* outer;
};
struct WatchedCalls {
  WatchedCall innermost;
  uint64_t calls = 0;
  Awaited* awaited = nullptr;
};
thread_local WatchedCalls t_watched;

PyObject* EnterWatched(PyObject* function, PyObject* const* arguments, size_t flags, PyObject* names) {
  WatchedCalls& watched = t_watched;
  const WatchedCall around = watched.innermost;
  const uint64_t number = ++watched.calls;
  watched.innermost = {function, number};
  PyObject* const result = FunctionVectorcall()(function, arguments, flags, names);
  watched.innermost = around;
  if (watched.awaited != nullptr && watched.awaited->number == number) [[unlikely]] {
    const std::unique_ptr<Awaited> awaited(std::exchange(watched.awaited, watched.awaited->outer));
    awaited->ended(result);
  }
  return result;
}

// Replaces one of the two pointers by the other.
void Replace(PyFunctionObject* function, vectorcallfunc from, vectorcallfunc to) {
  vectorcallfunc* const place = PointerBelowEntries(function);
  if (*place != from) return;
  *place = to;
  // The pointer has changed, and the specialising interpreter must read it.
  uint32_t number = 0;
  HideFromSpecialization(function, &number, [](uint32_t*, uint32_t) {});
}

void Watch(PyFunctionObject* function, PyCodeObject* code) {
  if (NamesIt(code)) Replace(function, FunctionVectorcall(), EnterWatched);
}
void Unwatch(PyFunctionObject* function, PyCodeObject*) { Replace(function, EnterWatched, FunctionVectorcall()); }

int g_watcher = -1;

}  // namespace

absl::Status WatchCalls(const char* name) {
  PyObject* const interned = PyUnicode_InternFromString(name);
  if (interned == nullptr) {
    PyErr_Clear();
    return absl::ResourceExhaustedError("out of memory");
  }
  Py_XSETREF(g_name, interned);
  if (!kFunctionsAreWatched) {
    UseFrameEvaluation();
    return absl::OkStatus();
  }
  if (g_watcher < 0) g_watcher = WatchFunctions<Watch>();
  if (g_watcher < 0) {
    PyErr_Clear();
    return absl::InternalError("other code watches functions, and Python has no place for one more watcher");
  }
  VisitFunctions<Watch>();
  return absl::OkStatus();
}

void UnwatchCalls() {
  if (g_name == nullptr) return;
  if (kFunctionsAreWatched) {
    if (g_watcher >= 0) UnwatchFunctions(std::exchange(g_watcher, -1));
    VisitFunctions<Unwatch>();
  } else {
    ReleaseFrameEvaluation();
  }
  Py_CLEAR(g_name);
}

bool InnermostCall(RunningCall* call) {
  if (!FramesAreKnown()) return false;
  const InterpreterFrame* const frame = InnermostFrame(PyThreadState_Get());
  if (frame == nullptr || !IsOfCall(frame)) return false;
  const bool known =
      kFunctionsAreWatched ? FunctionOf(frame) == t_watched.innermost.function : frame == EvaluatedFrame();
  if (!known || !NamesIt(CodeOf(frame))) return false;
  call->frame_ = frame;
  return true;
}

PyObject* RunningCall::Function() const { return FunctionOf(static_cast<const InterpreterFrame*>(frame_)); }

PyObject* RunningCall::Local(Py_ssize_t index) const {
  return LocalOf(static_cast<const InterpreterFrame*>(frame_), index);
}

void WhenInnermostCallEnds(void (*ended)(PyObject* result)) {
  if (!kFunctionsAreWatched) return WhenEvaluatedFrameEnds(ended);
  // nothrow: an exception would pass through Python's C code.
  auto* const awaited = new (std::nothrow) Awaited{t_watched.innermost.number, ended, t_watched.awaited};
  if (awaited == nullptr) {
    Recorder::Get()->Stop("std::bad_alloc");
    return ended(nullptr);
  }
  t_watched.awaited = awaited;
}

vectorcallfunc WatchedVectorcall() { return EnterWatched; }

}  // namespace torchtrace::python_dialect
