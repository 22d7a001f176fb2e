// Names of operators as other tools write them, with dots.

#ifndef TORCHTRACE_SERIALIZE_MODEL_OPERATOR_NAME_H_
#define TORCHTRACE_SERIALIZE_MODEL_OPERATOR_NAME_H_

#include <string>
#include <string_view>

namespace torchtrace {

// As level 2 names it: aten.add.Tensor is aten::add.Tensor, aten.addmm.default is
// aten::addmm. What has no two dots stays as it is, and so does a name of ours. TorchBench
// knows one operator under two names: aten.sum.SymInt is aten::sum.dim_IntList.
inline std::string OperatorName(std::string_view name) {
  if (name == "aten.sum.SymInt") name = "aten.sum.dim_IntList";
  const size_t dot = name.find('.');
  if (dot == 0 || dot == std::string_view::npos || name.find("::") != std::string_view::npos) return std::string(name);
  const size_t overload = name.find('.', dot + 1);
  if (overload == std::string_view::npos || name.find('.', overload + 1) != std::string_view::npos) {
    return std::string(name);
  }
  std::string result(name.substr(0, dot));
  result.append("::");
  const bool is_default = name.substr(overload + 1) == "default";
  result.append(name.substr(dot + 1, is_default ? overload - dot - 1 : std::string_view::npos));
  return result;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_OPERATOR_NAME_H_
