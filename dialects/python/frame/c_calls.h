// Level 3's calls of functions written in C (`--frames all`): builtin functions, methods of C types, functions of
// pybind11, and classes that are static C types. On all threads, called by whom ever. docs/FRAME.md.
//
// A profiling function would be the program's to see: it makes frame objects and bound methods, and numpy counts the
// references to an array. So native entries (dialects/python/setattr/) stand in all definitions that there are.

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
// their entries stand before these.
class CCallsHook : public TracingHook {
 public:
  // `replaced`: functions, as `module.name`, in whose definitions others stand for good.
  CCallsHook(const RecordingOptions& options, std::vector<std::string> replaced);

  int level() const override { return kFrameLevel; }
  std::string name() const override { return "C calls"; }
  absl::Status Install() override;
  void Uninstall() override;

  // Enters what has come since. Needs the GIL; runs no Python code.
  static void FindMore();
  // What calls of functions of `package` are to be named from now on; null: as they name themselves.
  static void SetNames(std::string package, std::string (*name)(PyObject* callable));

 private:
  void Find();

  const RecordingOptions options_;
  const std::vector<std::string> replaced_;
  PatchList patches_;
  bool installed_ = false;
  size_t not_entered_ = 0;  // functions
  std::string example_;     // one of them
};

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_FRAME_C_CALLS_H_
