// Dynamo and native entries want the one place that Python has for a frame evaluation function
// (dialects/python/setattr/frame_evaluation.h). Dynamo puts its own there while a thread runs compiled code, and
// afterwards what stood there before: this puts ours back where that was none.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_FRAME_SLOT_HOOK_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_FRAME_SLOT_HOOK_H_

#include <string>

#include "tracer/framework_dialect.h"
#include "tracer/python/python_patch.h"

namespace torchtrace::torch_dialect {

class FrameSlotHook : public TracingHook {
 public:
  // `level`: of those that need it.
  explicit FrameSlotHook(int level) : level_(level) {}
  int level() const override { return level_; }
  std::string name() const override { return "frame slot"; }
  absl::Status Install() override;
  void Uninstall() override;

 private:
  const int level_;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_FRAME_SLOT_HOOK_H_
