// Makes calls of Python functions from Python code pass through the function's
// `vectorcall` pointer, where level 0 stands.
//
// CPython 3.11 runs a call from bytecode to a Python function within the
// caller's C frame and does not look at that pointer, unless a frame evaluation
// function (PEP 523) is set. This one only hands on to CPython's own. Later
// versions look at the pointer, and need nothing.
//
// What a program may notice is that each call takes C stack. Where half of a
// thread's stack is used, calls are made as CPython would, and level 0 does not
// see those of Python functions.

#ifndef TORCHTRACE_DIALECTS_PYTHON_FRAME_EVALUATION_H_
#define TORCHTRACE_DIALECTS_PYTHON_FRAME_EVALUATION_H_

namespace torchtrace::python_dialect {

// Both need the GIL.
void SetFrameEvaluation();
// Whoever put a function of their own over ours keeps it, and goes on calling ours.
void RestoreFrameEvaluation();

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_FRAME_EVALUATION_H_
