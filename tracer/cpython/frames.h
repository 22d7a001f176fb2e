// The frames of running Python code: how CPython 3.11 to 3.14 keep them, as they lie in memory, and those of a thread
// one after another. With other versions TORCHTRACE_KNOWS_FRAMES isn't defined.

#ifndef TORCHTRACE_TRACER_CPYTHON_FRAMES_H_
#define TORCHTRACE_TRACER_CPYTHON_FRAMES_H_

// Python.h first, as it demands.
#include <Python.h>

#include <cstddef>

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030F0000
#define TORCHTRACE_KNOWS_FRAMES 1

#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_interpframe.h>
#endif
#undef Py_BUILD_CORE

namespace torchtrace {

using InterpreterFrame = _PyInterpreterFrame;

// The thread's innermost frame, begun or not; null where it runs no Python code.
inline InterpreterFrame* InnermostFrame(const PyThreadState* thread) {
#if PY_VERSION_HEX >= 0x030D0000
  return thread->current_frame;
#else
  return thread->cframe == nullptr ? nullptr : thread->cframe->current_frame;
#endif
}

// Not of frames that stand for C code, which are incomplete. Borrowed, as all here.
inline PyCodeObject* CodeOf(const InterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030D0000
  return _PyFrame_GetCode(const_cast<InterpreterFrame*>(frame));
#else
  return frame->f_code;
#endif
}

// The function that runs in a frame of a function.
inline PyObject* FunctionOf(const InterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030E0000
  return PyStackRef_AsPyObjectBorrow(frame->f_funcobj);
#elif PY_VERSION_HEX >= 0x030C0000
  return frame->f_funcobj;
#else
  return reinterpret_cast<PyObject*>(frame->f_func);
#endif
}

// Its `index`th local variable, parameters first; null where that has no value.
inline PyObject* LocalOf(const InterpreterFrame* frame, Py_ssize_t index) {
#if PY_VERSION_HEX >= 0x030E0000
  const _PyStackRef local = frame->localsplus[index];
  return PyStackRef_IsNull(local) ? nullptr : PyStackRef_AsPyObjectBorrow(local);
#else
  return frame->localsplus[index];
#endif
}

// Of a call of a function, not of a generator.
inline bool IsOfCall(const InterpreterFrame* frame) { return frame->owner == FRAME_OWNED_BY_THREAD; }

// How many more C frames the interpreter lets a thread take that counts them; many where none are counted.
inline int FramesLeft([[maybe_unused]] const PyThreadState* thread) {
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030E0000
  return thread->c_recursion_remaining;
#else
  return 1 << 30;
#endif
}

}  // namespace torchtrace

#endif

namespace torchtrace {

// The frames of Python code that the calling thread runs, looked at without making frame objects, so that the program
// can't tell, and without the GIL; by the C API, which makes frame objects and needs the GIL, where their layout isn't
// known.

// Looks once, in a call of a function made for that, whether frames in memory are what the C API says of them. Until it
// has said true, nobody reads a frame. Needs the GIL; runs Python code of its own.
bool CheckFrames();
bool FramesAreKnown();  // what it said

struct RunningFrame {
  PyCodeObject* code;  // borrowed: the frame keeps it
  int position;        // for LineOf; in equal code equal positions are one line
};

// Whether RunningFrames needs the GIL.
extern const bool kFramesNeedGil;

// Writes up to `most` frames, innermost first, and returns how many there are in all. Left out are
// those that have not begun yet, which also hides what levels 0 and 1 put in between. None where frames aren't known.
size_t RunningFrames(RunningFrame* frames, size_t most);

// The module globals of the `index`th of these frames; borrowed, null when it isn't there.
// Needs the GIL.
PyObject* GlobalsOf(size_t index);

// 0 where the compiler made the position up. Needs no GIL.
int LineOf(const RunningFrame& frame);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_CPYTHON_FRAMES_H_
