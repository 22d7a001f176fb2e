// Level 3's calls of functions written in Python, of modules' and classes' bodies and steps of generators, on all
// threads. docs/FRAME.md.
//
// They are seen by the frame evaluation function (dialects/python/setattr/frame_evaluation.h): what a debugger, a
// profiler or coverage has set stays theirs. What a call is recorded as is worked out once for each code object and
// kept with it (PEP 523), for as long as it lives.

#ifndef TORCHTRACE_DIALECTS_PYTHON_FRAME_PYTHON_CALLS_H_
#define TORCHTRACE_DIALECTS_PYTHON_FRAME_PYTHON_CALLS_H_

#include <string>
#include <vector>

#include "serialize/model/levels.h"
#include "tracer/framework_dialect.h"
#include "tracer/record/recording_options.h"

namespace torchtrace::python_dialect {

// What calls of functions written in C stand in: whether one that begins now on this thread is to be recorded, as far
// as the calls around it say. Needs the GIL; the thread records. Those that are recorded are counted from Began to
// Ended.
bool CallMayBegin(const RecordingOptions& options);
void CallBegan();
void CallEnded();

class PythonCallsHook : public TracingHook {
 public:
  // Functions of the framework, as `module.qualname`, of which something else is recorded. Not recorded are `plumbing`,
  // and `closed` with all that they call at this level.
  PythonCallsHook(const RecordingOptions& options, std::vector<std::string> plumbing, std::vector<std::string> closed);

  int level() const override { return kFrameLevel; }
  std::string name() const override { return "python calls"; }
  absl::Status Install() override;
  void Uninstall() override;

 private:
  const RecordingOptions options_;
  const std::vector<std::string> plumbing_, closed_;
  bool installed_ = false;
};

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_FRAME_PYTHON_CALLS_H_
