// Level 3's calls of functions written in C (`--frames all`): builtin functions, methods of C types, functions of
// pybind11, and classes that are static C types. On all threads, from any caller. docs/FRAME.md.
//
// The program could notice a profiling function: it creates frame objects and bound methods, and numpy counts the
// references to an array. So we put native entries (dialects/python/setattr/) into all function definitions instead.

#ifndef TORCHTRACE_DIALECTS_PYTHON_FRAME_C_CALLS_H_
#define TORCHTRACE_DIALECTS_PYTHON_FRAME_C_CALLS_H_

#include <Python.h>

#include <string>
#include <vector>

#include "dialects/python/setattr/patch_list.h"
#include "serialize/model/levels.h"
#include "tracer/framework_dialect.h"
#include "tracer/record/recording_options.h"

namespace torchtrace::python_dialect {

// One at a time in a process. Install it before the hooks of levels 0 and 1, so that it is uninstalled after them:
// their entries come before these.
class CCallsHook : public TracingHook {
 public:
  // `replaced`: functions, as `module.name`, whose definitions are replaced permanently.
  CCallsHook(const RecordingOptions& options, std::vector<std::string> replaced);

  int level() const override { return kFrameLevel; }
  std::string name() const override { return "C calls"; }
  absl::Status Install() override;
  void Uninstall() override;

  // Adds entries for functions that were loaded since. Needs the GIL; runs no Python code.
  static void FindMore();
  // Sets how calls of functions of `package` are named from now on; null: by the functions' own names.
  static void SetNames(std::string package, std::string (*name)(PyObject* callable));

 private:
  void Find();

  const RecordingOptions options_;
  const std::vector<std::string> replaced_;
  PatchList patches_;
  bool installed_ = false;
  size_t not_entered_ = 0;  // number of functions that couldn't be entered
  std::string example_;     // one of them
};

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_FRAME_C_CALLS_H_
