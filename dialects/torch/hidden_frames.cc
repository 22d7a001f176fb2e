#include "dialects/torch/hidden_frames.h"

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000

#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include <climits>

namespace torchtrace::torch_dialect {
namespace {

constexpr int kNeverTraceable = INT_MAX / 4;

bool IsHidden(const _PyInterpreterFrame* frame) { return frame->f_code->_co_firsttraceable == kNeverTraceable; }

}  // namespace

void HideFramesOf(PyObject* function) {
  if (!PyFunction_Check(function)) return;
  auto* const code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  code->_co_firsttraceable = kNeverTraceable;
}

PyCodeObject* CallingCode() {
  const _PyInterpreterFrame* const frame = PyThreadState_GET()->cframe->current_frame;
  return frame == nullptr ? nullptr : frame->f_code;
}

HiddenCaller::HiddenCaller() {
  const PyThreadState* const thread = PyThreadState_GET();
  // A debugger or coverage tool looks at the frames itself.
  if (thread->cframe->use_tracing) return;
  _PyInterpreterFrame* frame = thread->cframe->current_frame;
  if (frame == nullptr || !IsHidden(frame)) return;
  while (frame != nullptr && IsHidden(frame)) frame = frame->previous;
  if (frame == nullptr || frame->owner != FRAME_OWNED_BY_THREAD) return;
  frame_ = frame;
  position_ = frame->prev_instr;
  frame->prev_instr = _PyCode_CODE(frame->f_code) - 1;  // as if it had not started
}

void HiddenCaller::Show() {
  if (frame_ == nullptr) return;
  static_cast<_PyInterpreterFrame*>(frame_)->prev_instr = static_cast<_Py_CODEUNIT*>(position_);
}

}  // namespace torchtrace::torch_dialect

#else

namespace torchtrace::torch_dialect {
void HideFramesOf(PyObject*) {}

PyCodeObject* CallingCode() {
  PyFrameObject* const frame = PyEval_GetFrame();  // borrowed
  if (frame == nullptr) return nullptr;
  PyCodeObject* const code = PyFrame_GetCode(frame);
  Py_DECREF(code);  // the frame, which runs, keeps it
  return code;
}

HiddenCaller::HiddenCaller() = default;
void HiddenCaller::Show() {}
}  // namespace torchtrace::torch_dialect

#endif
