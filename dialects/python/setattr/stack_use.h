// The C stack that calls of Python functions take traced. From 3.11 on a call from bytecode runs untraced in its
// caller's C frame, however deep a program recurses. Traced, an entry (from 3.12 on) or a frame evaluation function is
// between the two. Once a thread's calls have taken a quarter of its stack, or 2 MiB, that they would not have taken
// untraced, calls are made as CPython makes them.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_STACK_USE_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_STACK_USE_H_

#include <Python.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tracer/cpython/frames.h"
#include "tracer/record/static_tls.h"

namespace torchtrace::python_dialect {

// A local variable of the function of ours that is between a call and CPython's evaluation of its frame. It has no
// destructor: up to Python 3.13 daemon threads end within a call when the interpreter does, by pthread_exit, which runs
// destructors, without the GIL.
class StackUse {
 public:
  enum By : bool { kEvaluation, kEntry };

  explicit StackUse(By by);
  StackUse(const StackUse&) = delete;
  void End();

  // Whether the call must be made as untraced.
  bool TooMuch() const {
    if (thread_.most_bytes == 0) [[unlikely]] {
      thread_.most_bytes = MostBytes();
    }
    return thread_.now.taken_bytes > thread_.most_bytes;
  }

 private:
  // Most C stack between two calls of ours that follow each other from bytecode, in any build of Python (1,064 of it
  // for the evaluation in Debian's 3.14). If more is used, C code of the program is in between, which takes it untraced
  // too.
  static constexpr uintptr_t kStraightBytes = 3072;
  // About what a call takes of ours alone, where CPython takes the rest untraced too.
  static constexpr size_t kOwnBytes = 160;

  struct Place {
    uintptr_t address = 0;  // of the innermost StackUse
    size_t taken_bytes = 0;
    By by = kEvaluation;
  };
  struct ThreadStack {
    Place now;
    uintptr_t outermost = 0;  // the highest address of a StackUse so far
    size_t most_bytes = 0;    // of taken_bytes; 0: not known yet
  };
  static size_t MostBytes();
  static constinit thread_local ThreadStack thread_ TORCHTRACE_STATIC_TLS;

  const Place before_;
  bool counted_;  // CPython counts C frames of the call that it would not have had
};

// CPython's own `vectorcall` of functions, as the last of a function's entries calls it.
PyObject* CallPastEntries(PyObject* function, PyObject* const* arguments, size_t flags, PyObject* names);

// The function's entry, also while its calls are made as untraced; else its `vectorcall`. Needs the GIL.
vectorcallfunc EntryOf(PyFunctionObject* function);

// Call it when entries are removed. Needs the GIL.
void NoteRemovedEntries();

// For run.json's list of what was not seen.
void NoteTooMuchStack();

inline StackUse::StackUse(By by) : before_(thread_.now) {
  const auto here = reinterpret_cast<uintptr_t>(this);
  const uintptr_t step = before_.address - here;
  const bool straight = step <= kStraightBytes;
  const size_t taken = before_.taken_bytes + (kCallsTakeStack ? kOwnBytes : straight ? step : 0);
  thread_.outermost = std::max(thread_.outermost, here);
  // Greenlets leave and enter calls in any order, so the sum alone would not come back to 0.
  thread_.now = {here, std::min<size_t>(taken, thread_.outermost - here), by};
  counted_ = straight && !(by == kEvaluation && before_.by == kEntry);
  if (counted_) AllowFrames(kFramesOfEvaluation);
}

inline void StackUse::End() {
  thread_.now = before_;
  if (counted_) AllowFrames(-kFramesOfEvaluation);
}

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_STACK_USE_H_
