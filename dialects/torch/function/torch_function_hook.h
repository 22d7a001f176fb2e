// Level 1: the calls that a function mode at the bottom of the stack would be told of.
//
// There is no mode: nothing is on the program's stack, and PyTorch is never asked to hand a call
// over. Native entries (dialects/python/setattr/native_entries.h) stand in the functions that would ask a
// mode, which is known ahead (function_protocol.h). An entry records its call when a mode would be
// told of it: no mode of the program is on, which would be told first and then calls the function
// again; torch functions aren't disabled; nothing compiles; and the thread is in no other call that a
// mode was told of, since modes are off within.

#ifndef TORCHTRACE_DIALECTS_TORCH_FUNCTION_TORCH_FUNCTION_HOOK_H_
#define TORCHTRACE_DIALECTS_TORCH_FUNCTION_TORCH_FUNCTION_HOOK_H_

#include <memory>
#include <string>

#include "dialects/python/setattr/native_entries.h"
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
  std::shared_ptr<python_dialect::NativeEntries> entries_;
};

// Where level 1 is off: arms the threads that were there before the hooks, or that C++ made, at their
// first call of a PyTorch function that is written in C, as level 1 does on the way.
class ArmingHook : public TracingHook {
 public:
  int level() const override { return 2; }
  std::string name() const override { return "arming"; }
  absl::Status Install() override;
  void Uninstall() override;

 private:
  std::shared_ptr<python_dialect::NativeEntries> entries_;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_FUNCTION_TORCH_FUNCTION_HOOK_H_
