// Level 1: calls through __torch_function__, factories included.
//
// A TorchFunctionMode stands on every thread's mode stack (function_mode.py),
// with native code behind it; PyTorch's C functions take a shorter way to the
// same recording (call_slots.h). As with any function mode, what an overridden
// function calls inside is not seen: the mode is off while it runs.

#ifndef TORCHTRACE_DIALECTS_TORCH_TORCH_FUNCTION_HOOK_H_
#define TORCHTRACE_DIALECTS_TORCH_TORCH_FUNCTION_HOOK_H_

#include <memory>
#include <string>

#include "dialects/torch/api_names.h"
#include "dialects/torch/function_mode.h"
#include "tracer/tracing_hook.h"

namespace torchtrace::torch_dialect {

class TorchFunctionHook : public TracingHook {
 public:
  explicit TorchFunctionHook(bool include_getters) : include_getters_(include_getters) {}

  int level() const override { return 1; }
  std::string name() const override { return "function"; }
  absl::Status Install() override;
  void Uninstall() override;

 private:
  const bool include_getters_;
  bool installed_ = false;
};

// Where level 1 is off: arms the threads that were there before the hooks, at their
// first call of a PyTorch function that is written in C, as level 1 does on the way.
class EarlierThreadsHook : public TracingHook {
 public:
  // True when there are Python threads but this one.
  static bool IsNeeded();

  int level() const override { return 2; }
  std::string name() const override { return "earlier threads"; }
  absl::Status Install() override;
  void Uninstall() override;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_TORCH_FUNCTION_HOOK_H_
