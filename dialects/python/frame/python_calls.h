// Level 3's calls of functions written in Python, bodies of modules and classes, and steps of generators, on all
// threads. docs/FRAME.md.
//
// We see them through the frame evaluation function (dialects/python/setattr/frame_evaluation.h), so a debugger,
// profiler or coverage tool keeps its own hooks. How a call is recorded is computed once for each code object and kept
// with it (PEP 523) for as long as it lives.

#ifndef TORCHTRACE_DIALECTS_PYTHON_FRAME_PYTHON_CALLS_H_
#define TORCHTRACE_DIALECTS_PYTHON_FRAME_PYTHON_CALLS_H_

#include <string>
#include <vector>

#include "serialize/model/levels.h"
#include "tracer/framework_dialect.h"
#include "tracer/record/recording_options.h"

namespace torchtrace::python_dialect {

// For calls of C functions, which nest with those of Python functions. CallMayBegin: whether the calls around one that
// begins now on this thread allow it to be recorded; needs the GIL, and a thread that records. A recorded call counts
// from CallBegan to CallEnded.
bool CallMayBegin(const RecordingOptions& options);
void CallBegan();
void CallEnded();

class PythonCallsHook : public TracingHook {
 public:
  // `plumbing` and `closed`: functions of the framework, as `module.qualname`, that are not recorded because something
  // else is recorded instead; for `closed`, neither is anything that they call at this level.
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
