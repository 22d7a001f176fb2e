#include "dialects/python/frame_evaluation.h"

#include <Python.h>

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000

#include <pthread.h>

#include <algorithm>
#include <cstdint>

#include "tracer/recorder.h"

namespace torchtrace::python_dialect {
namespace {

// The address below which more than half of the thread's stack is in use; a stack
// without a limit is taken for one of 64 MiB.
thread_local uintptr_t t_low = 0;

bool g_wanted = false;

[[gnu::noinline]] uintptr_t FindLow() {
  constexpr size_t kMost = 64 << 20;
  pthread_attr_t attributes;
  void* lowest = nullptr;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &lowest, &bytes);
    pthread_attr_destroy(&attributes);
  }
  const uintptr_t top = reinterpret_cast<uintptr_t>(lowest) + bytes;
  return t_low = bytes == 0 ? 1 : top - std::min(bytes, kMost) / 2;
}

PyObject* Evaluate(PyThreadState* thread, struct _PyInterpreterFrame* frame, int throwing);

// Calls that are made from here on take no C stack, on any thread, until this one
// has come back.
[[gnu::noinline]] PyObject* EvaluateDeep(PyThreadState* thread, struct _PyInterpreterFrame* frame, int throwing) {
  PyInterpreterState* const interpreter = PyThreadState_GetInterpreter(thread);
  const bool ours = _PyInterpreterState_GetEvalFrameFunc(interpreter) == Evaluate;
  if (ours) {
    _PyInterpreterState_SetEvalFrameFunc(interpreter, _PyEval_EvalFrameDefault);
    if (Recorder* const recorder = Recorder::Get()) {
      recorder->NoteNotSeen("level 0: Python functions called where more than half of a thread's stack is used");
    }
  }
  PyObject* const result = _PyEval_EvalFrameDefault(thread, frame, throwing);
  if (ours && g_wanted && _PyInterpreterState_GetEvalFrameFunc(interpreter) == _PyEval_EvalFrameDefault) {
    _PyInterpreterState_SetEvalFrameFunc(interpreter, Evaluate);
  }
  return result;
}

PyObject* Evaluate(PyThreadState* thread, struct _PyInterpreterFrame* frame, int throwing) {
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const uintptr_t low = t_low != 0 ? t_low : FindLow();
  if (here < low) [[unlikely]] {
    return EvaluateDeep(thread, frame, throwing);
  }
  return _PyEval_EvalFrameDefault(thread, frame, throwing);
}

}  // namespace

void SetFrameEvaluation() {
  g_wanted = true;
  PyInterpreterState* const interpreter = PyInterpreterState_Get();
  if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == _PyEval_EvalFrameDefault) {
    _PyInterpreterState_SetEvalFrameFunc(interpreter, Evaluate);
  }
}

void RestoreFrameEvaluation() {
  g_wanted = false;
  PyInterpreterState* const interpreter = PyInterpreterState_Get();
  if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == Evaluate) {
    _PyInterpreterState_SetEvalFrameFunc(interpreter, _PyEval_EvalFrameDefault);
  }
}

}  // namespace torchtrace::python_dialect

#else

namespace torchtrace::python_dialect {
void SetFrameEvaluation() {}
void RestoreFrameEvaluation() {}
}  // namespace torchtrace::python_dialect

#endif
