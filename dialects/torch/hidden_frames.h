// Keeps level 1 out of tracebacks and out of stack levels.
//
// A function mode reaches PyTorch's Python-implemented functions by calling
// them a second time: F.relu -> handle_torch_function -> the mode -> F.relu. A
// traceback, a warning's stacklevel and sys._getframe would show the detour.
// CPython leaves out frames that have not started yet ("incomplete"); these
// functions make the detour's frames look so.
//
// Knows CPython 3.11's frames; with other versions the frames stay visible.

#ifndef TORCHTRACE_DIALECTS_TORCH_HIDDEN_FRAMES_H_
#define TORCHTRACE_DIALECTS_TORCH_HIDDEN_FRAMES_H_

#include <Python.h>

namespace torchtrace::torch_dialect {

// From now on no frame of this function is seen.
void HideFramesOf(PyObject* python_function);

// Of the innermost Python frame, hidden or not; borrowed, null when there is none.
PyCodeObject* CallingCode();

// To be made by a native function that hidden Python frames have called. Hides
// the frame before those, the API function's first call, until Show().
class HiddenCaller {
 public:
  HiddenCaller();
  // The call went well: the frame goes on. After a failing call it stays
  // hidden while the exception leaves it, as it would not be there untraced.
  void Show();

 private:
  void* frame_ = nullptr;
  void* position_ = nullptr;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_HIDDEN_FRAMES_H_
