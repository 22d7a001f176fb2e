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

#if PY_VERSION_HEX >= 0x030C0000

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
  // Clears its version: else the specialising interpreter would not read the pointer.
  PyFunction_SetVectorcall(function, function->vectorcall);
}

int Changed(PyFunction_WatchEvent event, PyFunctionObject* function, PyObject* value) {
  PyObject* const code = event == PyFunction_EVENT_CREATE        ? function->func_code
                         : event == PyFunction_EVENT_MODIFY_CODE ? value
                                                                 : nullptr;
  if (code != nullptr && NamesIt(reinterpret_cast<PyCodeObject*>(code))) {
    Replace(function, FunctionVectorcall(), EnterWatched);
  }
  return 0;
}

int WatchExisting(PyObject* object, void*) {
  if (PyFunction_Check(object)) Changed(PyFunction_EVENT_CREATE, reinterpret_cast<PyFunctionObject*>(object), nullptr);
  return 1;  // go on
}

int UnwatchExisting(PyObject* object, void*) {
  if (PyFunction_Check(object)) {
    Replace(reinterpret_cast<PyFunctionObject*>(object), EnterWatched, FunctionVectorcall());
  }
  return 1;
}

int g_watcher = -1;

#endif

}  // namespace

absl::Status WatchCalls(const char* name) {
  PyObject* const interned = PyUnicode_InternFromString(name);
  if (interned == nullptr) {
    PyErr_Clear();
    return absl::ResourceExhaustedError("out of memory");
  }
  Py_XSETREF(g_name, interned);
#if PY_VERSION_HEX >= 0x030C0000
  if (g_watcher < 0) g_watcher = PyFunction_AddWatcher(Changed);
  if (g_watcher < 0) {
    PyErr_Clear();
    return absl::InternalError("other code watches functions, and Python has no place for one more watcher");
  }
  PyUnstable_GC_VisitObjects(WatchExisting, nullptr);
#else
  UseFrameEvaluation();
#endif
  return absl::OkStatus();
}

void UnwatchCalls() {
  if (g_name == nullptr) return;
#if PY_VERSION_HEX >= 0x030C0000
  if (g_watcher >= 0 && PyFunction_ClearWatcher(std::exchange(g_watcher, -1)) != 0) PyErr_Clear();
  PyUnstable_GC_VisitObjects(UnwatchExisting, nullptr);
#else
  ReleaseFrameEvaluation();
#endif
  Py_CLEAR(g_name);
}

bool InnermostCall(RunningCall* call) {
  if (!FramesAreKnown()) return false;
  const InterpreterFrame* const frame = InnermostFrame(PyThreadState_Get());
  if (frame == nullptr || !IsOfCall(frame)) return false;
#if PY_VERSION_HEX >= 0x030C0000
  if (FunctionOf(frame) != t_watched.innermost.function) return false;
#else
  if (frame != EvaluatedFrame()) return false;
#endif
  if (!NamesIt(CodeOf(frame))) return false;
  call->frame_ = frame;
  return true;
}

PyObject* RunningCall::Function() const { return FunctionOf(static_cast<const InterpreterFrame*>(frame_)); }

PyObject* RunningCall::Local(Py_ssize_t index) const {
  return LocalOf(static_cast<const InterpreterFrame*>(frame_), index);
}

void WhenInnermostCallEnds(void (*ended)(PyObject* result)) {
#if PY_VERSION_HEX >= 0x030C0000
  // nothrow: an exception would pass through Python's C code.
  auto* const awaited = new (std::nothrow) Awaited{t_watched.innermost.number, ended, t_watched.awaited};
  if (awaited == nullptr) {
    Recorder::Get()->Stop("std::bad_alloc");
    return ended(nullptr);
  }
  t_watched.awaited = awaited;
#else
  WhenEvaluatedFrameEnds(ended);
#endif
}

vectorcallfunc WatchedVectorcall() {
#if PY_VERSION_HEX >= 0x030C0000
  return EnterWatched;
#else
  return nullptr;
#endif
}

}  // namespace torchtrace::python_dialect
