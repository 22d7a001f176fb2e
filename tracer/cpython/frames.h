// The frames of running Python code: their layout in memory in CPython 3.10 to 3.14, and the list of a thread's frames.

#ifndef TORCHTRACE_TRACER_CPYTHON_FRAMES_H_
#define TORCHTRACE_TRACER_CPYTHON_FRAMES_H_

// Python.h first, as it demands.
#include <Python.h>

#include <cstddef>
#include <string_view>

#if PY_VERSION_HEX >= 0x030B0000
#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_interpframe.h>
#endif
#undef Py_BUILD_CORE
#else
#include <frameobject.h>
#endif

namespace torchtrace {

#if PY_VERSION_HEX >= 0x030B0000
using InterpreterFrame = _PyInterpreterFrame;
#else
using InterpreterFrame = PyFrameObject;
#endif

// Whether a call of a Python function from Python code uses C stack, even untraced.
inline constexpr bool kCallsTakeStack = PY_VERSION_HEX < 0x030B0000;

// The thread's innermost frame, begun or not; null where it runs no Python code.
inline InterpreterFrame* InnermostFrame(const PyThreadState* thread) {
#if PY_VERSION_HEX >= 0x030D0000
  return thread->current_frame;
#elif PY_VERSION_HEX >= 0x030B0000
  return thread->cframe == nullptr ? nullptr : thread->cframe->current_frame;
#else
  return thread->frame;
#endif
}

// The caller's frame.
inline InterpreterFrame* PreviousFrame(const InterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return frame->previous;
#else
  return frame->f_back;
#endif
}

// Whether the frame's code has begun to run. Before that it has no line, and the program can't see it.
inline bool HasBegun([[maybe_unused]] InterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return !_PyFrame_IsIncomplete(frame);
#else
  return true;
#endif
}

// The index of the frame's current instruction.
inline int PositionOf(const InterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return static_cast<int>(_PyInterpreterFrame_LASTI(const_cast<InterpreterFrame*>(frame)));
#else
  return frame->f_lasti;
#endif
}

// Not for frames of C code, which are incomplete. Returns a borrowed reference, like all functions here.
inline PyCodeObject* CodeOf(const InterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030D0000
  return _PyFrame_GetCode(const_cast<InterpreterFrame*>(frame));
#else
  return frame->f_code;
#endif
}

// The function that runs in a frame. CPython 3.10 does not store it: there we search all objects once for a function
// with the frame's code, and return null if there is none. For a nested function, which each call of the outer one
// creates again, we return a copy that has no defaults and keeps none of its objects alive.
#if PY_VERSION_HEX >= 0x030B0000
inline PyObject* FunctionOf(const InterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030E0000
  return PyStackRef_AsPyObjectBorrow(frame->f_funcobj);
#elif PY_VERSION_HEX >= 0x030C0000
  return frame->f_funcobj;
#else
  return reinterpret_cast<PyObject*>(frame->f_func);
#endif
}
#else
PyObject* FunctionOf(const InterpreterFrame* frame);
#endif

// The frame's `index`th local variable, parameters first, or the cell that holds it; null if it has no value.
inline PyObject* LocalOf(const InterpreterFrame* frame, Py_ssize_t index) {
#if PY_VERSION_HEX >= 0x030E0000
  const _PyStackRef local = frame->localsplus[index];
  return PyStackRef_IsNull(local) ? nullptr : PyStackRef_AsPyObjectBorrow(local);
#elif PY_VERSION_HEX >= 0x030B0000
  return frame->localsplus[index];
#else
  const PyCodeObject* const code = frame->f_code;
  // Parameters that inner functions use were moved into cells.
  for (Py_ssize_t i = 0; code->co_cell2arg != nullptr && i < PyTuple_GET_SIZE(code->co_cellvars); ++i) {
    if (code->co_cell2arg[i] == index) return frame->f_localsplus[code->co_nlocals + i];
  }
  return frame->f_localsplus[index];
#endif
}

// Whether this is the frame of a function call, not of a generator.
inline bool IsOfCall(const InterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return frame->owner == FRAME_OWNED_BY_THREAD;
#else
  return frame->f_gen == nullptr;
#endif
}

// Versions that count a thread's C frames: allows it some more. Evaluating a Python frame counts as kFramesOfEvaluation
// (PY_EVAL_C_STACK_UNITS in CPython's ceval.c).
inline constexpr int kFramesOfEvaluation = 2;
inline void AllowFrames([[maybe_unused]] int more) {
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030E0000
  PyThreadState_Get()->c_recursion_remaining += more;
#endif
}

// The functions below read the calling thread's Python frames without creating frame objects, so the program can't
// notice, and without the GIL.

// Checks once, in a call of a function made for this, that the frames in memory agree with the C API. Frames are not
// read before this has returned true. Needs the GIL; runs some Python code.
bool CheckFrames();
bool FramesAreKnown();  // the result of CheckFrames

struct RunningFrame {
  PyCodeObject* code;  // borrowed: the frame keeps it
  int position;        // for LineOf; the same code and position always give the same line
};

// Writes up to `most` frames, innermost first, and returns how many there are in all. Skips frames that have not begun
// yet, which also hides those that levels 0 and 1 add. Returns 0 if frames aren't known.
size_t RunningFrames(RunningFrame* frames, size_t most);

// The module globals of the `index`th of these frames; borrowed, null if there is no such frame. Needs the GIL.
PyObject* GlobalsOf(size_t index);

// The argument that the innermost running call of a function got for `parameter`: of the function of that name in a
// file whose path ends with `file`. Borrowed: the frame keeps it. Null if there is none. Needs no GIL.
PyObject* ArgumentOf(std::string_view function, std::string_view file, std::string_view parameter);

// 0 for an instruction that the compiler added. Needs no GIL.
int LineOf(const RunningFrame& frame);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_CPYTHON_FRAMES_H_
