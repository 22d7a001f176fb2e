// Level 1: its hook, and its table of the functions that call a function mode.

#ifndef TORCHTRACE_DIALECTS_TORCH_FUNCTION_TORCH_FUNCTION_HOOK_H_
#define TORCHTRACE_DIALECTS_TORCH_FUNCTION_TORCH_FUNCTION_HOOK_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/python/setattr/native_entries.h"
#include "dialects/torch/versions/versions.h"
#include "serialize/model/levels.h"
#include "tracer/framework_dialect.h"

namespace torchtrace::torch_dialect {

// How PyTorch's functions pass their calls to a function mode: function_protocol.tsv, which read_function_protocol.py
// reads from each version of torch.
//
// Its first line lists the versions. Each other line is `versions TAB function TAB told [TAB form]`:
//   versions   the versions of torch for which the line holds (serialize/base/version_spans.h)
//   function   where it is defined: "torch._C.TensorBase.__add__", "torch._tensor.Tensor.backward",
//              "torch._C.TensorBase.data.__set__"
//   told       the function that a mode receives: "torch.Tensor.add"; "self": the first argument, an operator's
//              object; "nobody": it calls no mode, as functions that make tensors (torch.from_numpy)
//   form       for a function written in Python, how it passes its arguments on
//              (dialects/python/describe/argument_form.h); empty or absent: as the call has them
struct HandedOn {
  std::string_view function;
  std::string_view told;
  std::string_view form;
};

// The rows for a version of torch. Their texts live for ever.
std::vector<HandedOn> FunctionProtocol(const TorchVersion& torch);

// Level 1: the calls that a function mode at the bottom of the stack would receive.
//
// No mode is installed, so the program's stack of modes stays as it is. Instead, the functions that would call a mode
// have native entries (dialects/python/setattr/native_entries.h). An entry records its call when a mode would receive
// it: the program has no mode on (that one would receive the call first, and then call the function again); nothing
// compiles; and the thread is in no other call that a mode received, since modes are off inside one.
//
// It also records calls while torch functions are disabled, which no mode receives; functions that make tensors without
// calling a mode, whatever modes are on; and what a backward pass calls of Python (hooks, the program's
// autograd.Functions, recomputed checkpoints), as if it were inside no other call.
class TorchFunctionHook : public TracingHook {
 public:
  TorchFunctionHook(const TorchVersion& torch, bool include_getters)
      : torch_(torch), include_getters_(include_getters) {}

  int level() const override { return kFunctionLevel; }
  std::string name() const override { return "function"; }
  absl::Status Install() override;
  void Uninstall() override;

 private:
  const TorchVersion torch_;
  const bool include_getters_;
  std::shared_ptr<python_dialect::NativeEntries> entries_;
};

// If level 1 is off: arms threads that ran before the hooks, or that C++ made, at their first call of a PyTorch
// function that is written in C or of a ScriptFunction. Level 1 does that itself.
class ArmingHook : public TracingHook {
 public:
  explicit ArmingHook(const TorchVersion& torch) : torch_(torch) {}

  int level() const override { return kDispatchLevel; }
  std::string name() const override { return "arming"; }
  absl::Status Install() override;
  void Uninstall() override;

 private:
  const TorchVersion torch_;
  std::shared_ptr<python_dialect::NativeEntries> entries_;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_FUNCTION_TORCH_FUNCTION_HOOK_H_
