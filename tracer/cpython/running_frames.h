// The frames of Python code that the calling thread runs, looked at without making frame objects, so that the program
// can't tell. Where frames.h knows how they lie in memory they are read there, without the GIL; elsewhere by the C API,
// which makes frame objects and needs the GIL.

#ifndef TORCHTRACE_TRACER_CPYTHON_RUNNING_FRAMES_H_
#define TORCHTRACE_TRACER_CPYTHON_RUNNING_FRAMES_H_

// Python.h first, as it demands.
#include <Python.h>

#include <cstddef>

namespace torchtrace {

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

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_CPYTHON_RUNNING_FRAMES_H_
