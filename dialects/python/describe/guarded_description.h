// The boundary around the description of a call: nothing that goes wrong in it reaches the program.

#ifndef TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_GUARDED_DESCRIPTION_H_
#define TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_GUARDED_DESCRIPTION_H_

#include <exception>

#include "tracer/record/recorder.h"

namespace torchtrace::python_dialect {

// Runs `describe`, which fills the thread's scratch; `describing` is the thread's, of that scratch. False:
// the call is not to be recorded. Where it fails, for want of memory, recording stops.
template <typename Describe>
bool DescribeGuarded(bool* describing, Describe&& describe) {
  // Code of the program that came to run in a description would fill the same scratch.
  if (*describing) return false;
  *describing = true;
  bool done = false;
  try {
    describe();
    done = true;
  } catch (const std::exception& error) {
    Recorder::Get()->Stop(error.what());
  }
  *describing = false;
  return done;
}

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_GUARDED_DESCRIPTION_H_
