// Torch's own names of operators with their overloads, and strides.

#ifndef TORCHTRACE_SERIALIZE_MODEL_TORCH_NAMES_H_
#define TORCHTRACE_SERIALIZE_MODEL_TORCH_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/model/value.h"

namespace torchtrace {

// Converts an operator's name as other tools write it, with dots, to its name at level 2: aten.add.Tensor is
// aten::add.Tensor, aten.addmm.default is aten::addmm. Names without exactly two dots, and our own, stay the same.
// TorchBench has two names for one operator: aten.sum.SymInt is aten::sum.dim_IntList.
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

// The canonical spelling of an operator, that of level 2, for comparing calls, lists and patterns: aten::mm for
// aten::mm.default, aten.mm, aten.mm.default, torch.ops.aten.mm and torch.ops.aten.mm.default. Converts the beginning
// of a glob. Other names stay the same.
std::string CanonicalName(std::string_view name);

// The canonical name, and the other spellings that calls may have: aten::mm, torch.ops.aten.mm, aten.mm.
std::vector<std::string> SpellingsOf(std::string_view canonical);

// `aten::add` for `aten::add.Tensor` and for itself; empty for names that are not operators, such as autograd nodes.
inline std::string_view OperatorPacket(std::string_view name) {
  const size_t colons = name.find("::");
  if (colons == std::string_view::npos || name.find("::", colons + 2) != std::string_view::npos ||
      name.find(' ') != std::string_view::npos) {
    return {};
  }
  return name.substr(0, name.find('.', colons));
}

// As torch.Tensor.is_contiguous(): torchtrace records only the strides of tensors that are not contiguous. Both lists
// have the same length. Dimensions of size 1 may have any stride, tensors without elements any strides.
inline bool IsContiguous(const std::vector<Dim>& shape, const std::vector<Dim>& strides) {
  for (const Dim& size : shape) {
    if (size == 0) return true;
  }
  uint64_t expected = 1;  // may wrap around, as no real tensor's does
  for (size_t i = shape.size(); i-- > 0;) {
    const uint64_t size = static_cast<uint64_t>(shape[i].value_or(0));
    if (size == 1) continue;
    if (static_cast<uint64_t>(strides[i].value_or(0)) != expected) return false;
    expected *= size;
  }
  return true;
}

// The recorded strides, or those of a contiguous tensor of its shape. Only the recorded ones if the layout is not
// strided.
std::vector<Dim> StridesOf(const Value& tensor);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_TORCH_NAMES_H_
