// The frames of running Python code: how CPython 3.10 to 3.14 keep them, as they lie in memory, and those of a thread
// one after another.

#ifndef TORCHTRACE_TRACER_CPYTHON_FRAMES_H_
#define TORCHTRACE_TRACER_CPYTHON_FRAMES_H_

// Python.h first, as it demands.
#include <Python.h>

#include <cstddef>

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

// Whether a call of a Python function from Python code takes C stack, untraced too.
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

// The caller's.
inline InterpreterFrame* PreviousFrame(const InterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return frame->previous;
#else
  return frame->f_back;
#endif
}

// Whether its code has begun to run: no other has a line, or is seen by the program.
inline bool HasBegun([[maybe_unused]] InterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return !_PyFrame_IsIncomplete(frame);
#else
  return true;
#endif
}

// The index of the instruction that it is at.
inline int PositionOf(const InterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return static_cast<int>(_PyInterpreterFrame_LASTI(const_cast<InterpreterFrame*>(frame)));
#else
  return frame->f_lasti;
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

// The function that runs in a frame of a function. CPython 3.10 does not keep it: there it is one of that code, which
// is looked for among all objects the first time, and null where there is none; of functions that calls make anew a
// likeness, which keeps nothing of theirs alive and has no defaults.
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

// Its `index`th local variable, parameters first, or the cell that has it; null where that has no value.
inline PyObject* LocalOf(const InterpreterFrame* frame, Py_ssize_t index) {
#if PY_VERSION_HEX >= 0x030E0000
  const _PyStackRef local = frame->localsplus[index];
  return PyStackRef_IsNull(local) ? nullptr : PyStackRef_AsPyObjectBorrow(local);
#elif PY_VERSION_HEX >= 0x030B0000
  return frame->localsplus[index];
#else
  const PyCodeObject* const code = frame->f_code;
  // Parameters that inner functions use have moved.
  for (Py_ssize_t i = 0; code->co_cell2arg != nullptr && i < PyTuple_GET_SIZE(code->co_cellvars); ++i) {
    if (code->co_cell2arg[i] == index) return frame->f_localsplus[code->co_nlocals + i];
  }
  return frame->f_localsplus[index];
#endif
}

// Of a call of a function, not of a generator.
inline bool IsOfCall(const InterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return frame->owner == FRAME_OWNED_BY_THREAD;
#else
  return frame->f_gen == nullptr;
#endif
}

// How many more C frames the interpreter lets a thread take that counts them; many where none are counted.
inline int FramesLeft([[maybe_unused]] const PyThreadState* thread) {
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030E0000
  return thread->c_recursion_remaining;
#else
  return 1 << 30;
#endif
}

// The frames of Python code that the calling thread runs, looked at without making frame objects, so that the program
// can't tell, and without the GIL.

// Looks once, in a call of a function made for that, whether frames in memory are what the C API says of them. Until it
// has said true, nobody reads a frame. Needs the GIL; runs Python code of its own.
bool CheckFrames();
bool FramesAreKnown();  // what it said

struct RunningFrame {
  PyCodeObject* code;  // borrowed: the frame keeps it
  int position;        // for LineOf; in equal code equal positions are one line
};

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
