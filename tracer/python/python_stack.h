// The Python stack of a thread, read as its frames lie in memory.

#ifndef TORCHTRACE_TRACER_PYTHON_PYTHON_STACK_H_
#define TORCHTRACE_TRACER_PYTHON_PYTHON_STACK_H_

// Python.h first, as it demands.
#include <Python.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tracer/record/recorder.h"

namespace torchtrace {

// The frames of Python code that the calling thread runs, looked at without making frame
// objects, so that the program can't tell. All that knows how CPython keeps them is in
// running_frames.cc: its 3.11 is read as it lies in memory, without the GIL; other versions by
// the C API, which makes frame objects and needs the GIL.

struct RunningFrame {
  PyCodeObject* code;  // borrowed: the frame keeps it
  int position;        // for LineOf; in equal code equal positions are one line
};

// Whether RunningFrames needs the GIL.
extern const bool kFramesNeedGil;

// Writes up to `most` frames, innermost first, and returns how many there are in all. Left out are
// those that have not begun yet, which also hides what levels 0 and 1 put in between.
size_t RunningFrames(RunningFrame* frames, size_t most);

// The module globals of the `index`th of these frames; borrowed, null when it isn't there.
// Needs the GIL.
PyObject* GlobalsOf(size_t index);

// 0 where the compiler made the position up. Needs no GIL.
int LineOf(const RunningFrame& frame);

// Makes ThreadStacks of Python: each walks its own thread's frames, and finds again what it
// has seen before by comparing addresses.
//
// A code object's address means the same for as long as the object lives: those that were
// seen are held, once for all threads, until ReleaseHeldCode or until they are too many.

// `libraries`: the packages and modules whose code is the traced library's. Needs no GIL.
std::unique_ptr<ThreadStack> MakePythonStack(std::vector<std::string> libraries);

// Needs the GIL. Any thread may go on taking stacks.
void ReleaseHeldCode();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_PYTHON_STACK_H_
