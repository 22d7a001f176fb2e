// A framework's compiler and native entries want the one place that Python has for a frame evaluation function
// (frame_evaluation.h). The compiler puts its own there while a thread runs compiled code, and afterwards what stood
// there before, or none: this puts ours back where that was none.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_FRAME_SLOT_HOOK_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_FRAME_SLOT_HOOK_H_

#include <string>

#include "tracer/framework_dialect.h"
#include "tracer/record/export.h"

namespace torchtrace::python_dialect {

// One at a time in a process.
class TORCHTRACE_EXPORT FrameSlotHook : public TracingHook {
 public:
  // `level`: of those that need it. `module`, which is imported, has a builtin `set_eval_frame`, of one argument or of
  // any (METH_VARARGS | METH_KEYWORDS).
  FrameSlotHook(int level, std::string module) : level_(level), module_(std::move(module)) {}
  int level() const override { return level_; }
  std::string name() const override { return "frame slot"; }
  absl::Status Install() override;
  void Uninstall() override;

 private:
  const int level_;
  const std::string module_;
};

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_FRAME_SLOT_HOOK_H_
