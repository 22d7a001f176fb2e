// Torch's own names and numbers: dtypes, operators with their overloads, strides.

#ifndef TORCHTRACE_SERIALIZE_MODEL_TORCH_NAMES_H_
#define TORCHTRACE_SERIALIZE_MODEL_TORCH_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/model/value.h"

namespace torchtrace {

// TorchBench's short names of dtypes, which OperatorInputsMode writes: f32, b8. Read in
// files of its kind, written in exports for its loader. Callable from any thread.

// Empty when it is none.
std::string_view DtypeOfAbbreviation(std::string_view abbreviation);

// "long int" of "int64", as PyTorch's C++ and its profiler name dtypes; the same name where they have no other.
std::string_view CppNameOfDtype(std::string_view dtype);

// Of one element; 1 where several are packed into a byte.
uint64_t BytesOfDtype(std::string_view dtype);

// Whether torch may have a dtype of that name, as float8_e4m3fn; nothing else in torch is called so.
bool IsDtypeName(std::string_view name);

// The loader knows fewer: empty for a dtype that it has no name for.
std::string_view LoaderAbbreviation(std::string_view dtype);

// What `torch.NAME` alone stands for in the text form: dtypes, layouts and memory
// formats are all written so, and told apart by their names. Shared by text_form.cc,
// which writes them, and by the parser. Callable from any thread.

// kLayout and kMemoryFormat for the names that are known; else kDtype, or kType where
// the name begins with a capital letter (torch.Tensor). A value that is not what its
// name alone says is written in a long form: torch.dtype("strided"). So a name that is
// missing here costs a few characters, and must never be taken off.
ValueTag KindOfTorchName(std::string_view name);

// Names of operators as other tools write them, with dots.

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

// The one spelling of an operator, as level 2 has it, under which calls, lists and patterns meet: aten::mm of
// aten::mm.default, aten.mm, aten.mm.default, torch.ops.aten.mm and torch.ops.aten.mm.default. Of a glob its beginning
// is spelled so. Other names stay as they are.
std::string CanonicalName(std::string_view name);

// The canonical name as it is, and how else calls of it may be called: aten::mm, torch.ops.aten.mm, aten.mm.
std::vector<std::string> SpellingsOf(std::string_view canonical);

// `aten::add` of `aten::add.Tensor`, and of itself; empty for what is no operator's name, such as that of an autograd
// node.
inline std::string_view OperatorPacket(std::string_view name) {
  const size_t colons = name.find("::");
  if (colons == std::string_view::npos || name.find("::", colons + 2) != std::string_view::npos ||
      name.find(' ') != std::string_view::npos) {
    return {};
  }
  return name.substr(0, name.find('.', colons));
}

// Whether strides say more than the shape: torchtrace keeps those of tensors
// that are not contiguous, as torch.Tensor.is_contiguous() has it.

// Of the same length. Dimensions of size 1 may have any stride, tensors without elements any strides.
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

// A tensor's own, or what its shape comes to when it is contiguous; of another layout than strided those it has.
std::vector<Dim> StridesOf(const Value& tensor);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_TORCH_NAMES_H_
