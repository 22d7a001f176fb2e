// Level 1: its hook, and what it knows of the functions that would ask a function mode.

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

// How PyTorch's functions hand their calls to a function mode: function_protocol.tsv, read ahead from each
// version of torch by read_function_protocol.py.
//
// Its first line names the versions. Each other one is `versions TAB function TAB told [TAB form]`:
//   versions   of torch in which it is so (serialize/base/version_spans.h)
//   function   where it stands: "torch._C.TensorBase.__add__", "torch._tensor.Tensor.backward",
//              "torch._C.TensorBase.data.__set__"
//   told       the function that a mode is told of: "torch.Tensor.add"; "self": the first argument,
//              an operator's object; "nobody": none, as of what makes tensors (torch.from_numpy)
//   form       of a function written in Python: how its arguments are handed on
//              (dialects/python/describe/argument_form.h); empty or absent: as the call has them

struct HandedOn {
  std::string_view function;
  std::string_view told;
  std::string_view form;
};

// That of a version of torch. The texts live for ever.
std::vector<HandedOn> FunctionProtocol(const TorchVersion& torch);

// Level 1: the calls that a function mode at the bottom of the stack would be told of.
//
// There is no mode: nothing is on the program's stack, and PyTorch is never asked to hand a call
// over. Native entries (dialects/python/setattr/native_entries.h) stand in the functions that would ask a
// mode, which is known ahead (torch_function_hook.h). An entry records its call when a mode would be
// told of it: no mode of the program is on, which would be told first and then calls the function
// again; torch functions aren't disabled; nothing compiles; and the thread is in no other call that a
// mode was told of, since modes are off within.
//
// Two things more: what makes tensors and tells nobody, whatever modes are on; and what a backward pass calls
// of Python (hooks, own functions, what is computed again), as if nothing were around it.

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

// Where level 1 is off: arms the threads that were there before the hooks, or that C++ made, at their
// first call of a PyTorch function that is written in C or of a ScriptFunction, as level 1 does on the way.
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
