// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/cpython/frames.h"

#include <frameobject.h>  // PyFrame_GetBack, before 3.11

#include <algorithm>

namespace torchtrace {

#ifdef TORCHTRACE_KNOWS_FRAMES

namespace {

InterpreterFrame* FirstBegun(InterpreterFrame* frame) {
  while (frame != nullptr && _PyFrame_IsIncomplete(frame)) frame = frame->previous;
  return frame;
}

InterpreterFrame* Innermost() {
  // Also where another thread has the GIL.
  const PyThreadState* const thread = PyGILState_GetThisThreadState();
  return thread == nullptr ? nullptr : FirstBegun(InnermostFrame(thread));
}

}  // namespace

const bool kFramesNeedGil = false;

size_t RunningFrames(RunningFrame* frames, size_t most) {
  size_t count = 0;
  for (InterpreterFrame* frame = Innermost(); frame != nullptr; frame = FirstBegun(frame->previous)) {
    if (count < most) frames[count] = {CodeOf(frame), static_cast<int>(_PyInterpreterFrame_LASTI(frame))};
    ++count;
  }
  return count;
}

PyObject* GlobalsOf(size_t index) {
  const InterpreterFrame* frame = Innermost();
  for (; frame != nullptr && index > 0; --index) frame = FirstBegun(frame->previous);
  return frame == nullptr ? nullptr : frame->f_globals;
}

int LineOf(const RunningFrame& frame) {
  const int line = PyCode_Addr2Line(frame.code, frame.position * static_cast<int>(sizeof(_Py_CODEUNIT)));
  return std::max(line, 0);
}

#else

namespace {

// New references, as PyFrame_GetBack gives them.
PyFrameObject* Innermost() {
  PyFrameObject* const frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  return frame;
}

PyFrameObject* Back(PyFrameObject* frame) {
  PyFrameObject* const back = PyFrame_GetBack(frame);
  Py_DECREF(frame);
  return back;
}

}  // namespace

const bool kFramesNeedGil = true;

size_t RunningFrames(RunningFrame* frames, size_t most) {
  size_t count = 0;
  for (PyFrameObject* frame = Innermost(); frame != nullptr; frame = Back(frame)) {
    if (count < most) {
      PyCodeObject* const code = PyFrame_GetCode(frame);
      frames[count] = {code, PyFrame_GetLineNumber(frame)};
      Py_DECREF(code);  // the frame, which runs, keeps it
    }
    ++count;
  }
  return count;
}

PyObject* GlobalsOf(size_t index) {
  PyFrameObject* frame = Innermost();
  for (; frame != nullptr && index > 0; --index) frame = Back(frame);
  if (frame == nullptr) return nullptr;
  PyObject* const globals = PyObject_GetAttrString(reinterpret_cast<PyObject*>(frame), "f_globals");
  Py_DECREF(frame);
  Py_XDECREF(globals);  // the frame, which runs, keeps it
  return globals;
}

int LineOf(const RunningFrame& frame) { return std::max(frame.position, 0); }

#endif

}  // namespace torchtrace
