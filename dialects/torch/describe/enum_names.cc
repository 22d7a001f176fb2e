#include "dialects/torch/describe/enum_names.h"

#include <pybind11/pybind11.h>
#include <torch/custom_class_detail.h>

#include <cstring>
#include <iterator>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <typeinfo>

#include "dialects/python/describe/object_names.h"

// A PyTorch without torch.distributed doesn't have it: c10d::ProcessGroup::getGroupName.
#pragma weak _ZNK4c10d12ProcessGroup12getGroupNameB5cxx11Ev

namespace torchtrace::torch_dialect {
namespace {

constexpr char kReduceOp[] = "torch.distributed.distributed_c10d.ReduceOp";
constexpr char kReduceOpInScript[] = "__torch__.torch.classes.c10d.ReduceOp";
constexpr char kProcessGroup[] = "torch.distributed.distributed_c10d.ProcessGroup";
constexpr char kProcessGroupInScript[] = "__torch__.torch.classes.c10d.ProcessGroup";

std::string NameOf(const c10d::ReduceOp& op) {
  constexpr std::string_view kNames[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
  std::string name = kReduceOp;
  if (op.op_ < std::size(kNames)) (name += '.') += kNames[op.op_];
  return name;
}

std::string NameOf(const c10d::ProcessGroup& group) {
  // Another class may ask Python. By its text: a PyTorch without torch.distributed has no type_info of it.
  if (std::string_view(typeid(group).name()) != "N4c10d12ProcessGroupE") return kProcessGroup;
  const std::string& name = group.c10d::ProcessGroup::getGroupName();
  return name.empty() ? kProcessGroup : std::string(kProcessGroup) + "." + name;
}

// PyTorch registers it when it is loaded, for ever.
bool IsOfClass(const c10::IValue& object, const c10::Type* known) {
  return known != nullptr && object.toObjectRef().type().get() == known;
}

template <typename T>
const T& Held(const c10::IValue& object) {
  return *static_cast<const T*>(object.toObjectRef().getSlot(0).toCapsule().get());
}

// Null: pybind11 knows no C++ type for it, or several.
const pybind11::detail::type_info* InfoOf(PyTypeObject* type) {
  const auto& types = pybind11::detail::get_internals().registered_types_py;
  const auto found = types.find(type);
  return found == types.end() || found->second.size() != 1 ? nullptr : found->second.front();
}

const void* ValueOf(PyObject* object) {
  const auto* const instance = reinterpret_cast<const pybind11::detail::instance*>(object);
  return instance->simple_layout ? instance->simple_value_holder[0] : nullptr;
}

}  // namespace

void InitEnumNames() { pybind11::detail::get_internals(); }

std::string PybindValueName(PyObject* value, PyTypeObject* type) {
  // pybind11's classes have a metaclass.
  if (Py_TYPE(type) == &PyType_Type) return "";
  const pybind11::detail::type_info* const info = InfoOf(type);
  const void* const held = info == nullptr || info->type != type ? nullptr : ValueOf(value);
  if (held == nullptr) return "";
  const TypeFacts& facts = FactsOf(type);
  if (PyObject* const entries = facts.entries) {
    PyObject *name, *entry;
    Py_ssize_t position = 0;
    while (PyDict_Next(entries, &position, &name, &entry)) {
      if (!PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) == 0) continue;
      PyObject* const member = PyTuple_GET_ITEM(entry, 0);
      const void* const known = Py_TYPE(member) == type ? ValueOf(member) : nullptr;
      if (known == nullptr || std::memcmp(known, held, info->type_size) != 0) continue;
      return facts.name + "." + TextOf(name);
    }
    return "";
  }
  if (info->type_size == sizeof(c10d::ReduceOp) && facts.name == kReduceOp) {
    return NameOf(*static_cast<const c10d::ReduceOp*>(held));
  }
  if (info->type_size == sizeof(c10d::ProcessGroup) && facts.name == kProcessGroup) {
    return NameOf(*static_cast<const c10d::ProcessGroup*>(held));
  }
  return "";
}

bool IsReduceOp(const c10::IValue& object) {
  static const c10::Type* const known = torch::getCustomClass(kReduceOpInScript).get();
  return IsOfClass(object, known);
}

std::string ReduceOpName(const c10::IValue& object) { return NameOf(Held<c10d::ReduceOp>(object)); }

bool IsProcessGroup(const c10::IValue& object) {
  static const c10::Type* const known = torch::getCustomClass(kProcessGroupInScript).get();
  return IsOfClass(object, known);
}

std::string ProcessGroupName(const c10::IValue& object) { return NameOf(Held<c10d::ProcessGroup>(object)); }

}  // namespace torchtrace::torch_dialect
