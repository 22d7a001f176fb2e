// How PyTorch's functions hand their calls to a function mode: a table of this version of torch, read
// ahead by read_function_protocol.py in a process of its own.
//
// A line of the table is `function TAB told [TAB form]`:
//   function   where it stands: "torch._C.TensorBase.__add__", "torch._tensor.Tensor.backward",
//              "torch._C.TensorBase.data.__set__"
//   told       the function that a mode is told of: "torch.Tensor.add"; "self": the first argument,
//              an operator's object
//   form       of a function written in Python: how its arguments are handed on
//              (dialects/python/describe/argument_form.h); empty or absent: as the call has them

#ifndef TORCHTRACE_DIALECTS_TORCH_FUNCTION_FUNCTION_PROTOCOL_H_
#define TORCHTRACE_DIALECTS_TORCH_FUNCTION_FUNCTION_PROTOCOL_H_

#include <string_view>
#include <vector>

namespace torchtrace::torch_dialect {

struct HandedOn {
  std::string_view function;
  std::string_view told;
  std::string_view form;
};

// The texts live for ever.
std::vector<HandedOn> FunctionProtocol();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_FUNCTION_FUNCTION_PROTOCOL_H_
