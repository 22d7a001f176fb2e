#include "dialects/torch/common/api_names.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>
#include <utility>

#include "dialects/torch/describe/describe.h"
#include "serialize/model/config_builder.h"
#include "tracer/cpython/objects.h"

namespace torchtrace::torch_dialect {
namespace {

constexpr size_t kMaxCached = 20000;

// Where public names live, the preferred place first among names of one length.
constexpr std::string_view kNamespaces[] = {
#include "dialects/torch/common/api_namespaces.inc"
};

// A module's dictionary, or a class's own.
PyObject* DictOfOwner(PyObject* owner) {
  if (PyModule_Check(owner)) return PyModule_GetDict(owner);
  return PyType_Check(owner) ? DictOf(reinterpret_cast<PyTypeObject*>(owner)) : nullptr;
}

PyObject* InDict(PyObject* dict, std::string_view wanted) {
  PyObject *name, *member;
  Py_ssize_t position = 0;
  while (dict != nullptr && PyDict_Next(dict, &position, &name, &member) != 0) {
    if (TextIs(name, wanted)) return member;
  }
  return nullptr;
}

PyObject* FindNamespace(std::string_view dotted) {
  size_t end = std::min(dotted.find('.'), dotted.size());
  PyObject* owner = InDict(PyImport_GetModuleDict(), dotted.substr(0, end));
  while (owner != nullptr && end != dotted.size()) {
    const size_t start = end + 1;
    end = std::min(dotted.find('.', start), dotted.size());
    owner = InDict(DictOfOwner(owner), dotted.substr(start, end - start));
  }
  return owner;
}

// The function behind a member of a dictionary; null for anything else: classes and constants have their own names.
PyObject* FunctionOf(PyObject* member) {
  if (Py_TYPE(member) == &PyStaticMethod_Type || Py_TYPE(member) == &PyClassMethod_Type) {
    // A member of the C struct, which keeps it alive.
    member = PyObject_GetAttrString(member, "__func__");
    Py_DECREF(member);
  } else if (Py_TYPE(member) == &PyMethod_Type) {
    member = PyMethod_GET_FUNCTION(member);
  }
  const PyTypeObject* const type = Py_TYPE(member);
  const bool is_function = type == &PyFunction_Type || type == &PyCFunction_Type || type == &PyMethodDescr_Type ||
                           type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type;
  return is_function ? member : nullptr;
}

// Public before private, then fewer parts, then Python 3 before Python 2, then shorter, then the preferred place.
struct Rank {
  bool is_private;
  std::ptrdiff_t dots;
  bool is_python_2;
  size_t size;
  size_t order;
  std::string name;
  bool operator<(const Rank& other) const {
    return std::tie(is_private, dots, is_python_2, size, order, name) <
           std::tie(other.is_private, other.dots, other.is_python_2, other.size, other.order, other.name);
  }
};

// Calls `visit(name, function)` for the functions of the namespace, including those of a class's bases.
template <typename Visit>
void ForEachFunction(PyObject* owner, Visit&& visit) {
  auto* const type = PyType_Check(owner) ? reinterpret_cast<PyTypeObject*>(owner) : nullptr;
  const auto in = [&](PyObject* dict) {
    PyObject *name, *member;
    Py_ssize_t position = 0;
    while (dict != nullptr && PyDict_Next(dict, &position, &name, &member) != 0) {
      if (!PyUnicode_Check(name) || (type != nullptr && _PyType_Lookup(type, name) != member)) continue;
      if (PyObject* const function = FunctionOf(member)) visit(name, function);
    }
  };
  if (type == nullptr) return in(DictOfOwner(owner));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) in(DictOfOwner(PyTuple_GET_ITEM(type->tp_mro, i)));
}

// Where classes are defined is not where users know them.
std::string Public(std::string name) {
  static constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {
      {"torch._C.TensorBase.", "torch.Tensor."},
      {"torch._tensor.Tensor.", "torch.Tensor."},
      {"torch._C._VariableFunctionsClass.", "torch."},
  };
  for (const auto& [prefix, shown] : kPrefixes) {
    if (name.compare(0, prefix.size(), prefix) == 0) return std::string(shown) + name.substr(prefix.size());
  }
  return name;
}

std::string InstanceText(PyObject* object, const char* name) { return TextOf(InstanceAttribute(object, name)); }

// torch.ops.aten.add.Tensor, torch.ops.aten.add, torch.ops.higher_order.cond;
// empty for other objects.
std::string OperatorObjectName(PyObject* object) {
  std::string name = InstanceText(object, "_name");
  if (name.empty()) name = InstanceText(object, "_qualified_op_name");
  if (name.empty()) return "";
  const std::string space = InstanceText(object, "_ns");
  if (const size_t colons = name.find("::"); colons != std::string::npos) {
    name.replace(colons, 2, ".");
  } else if (!space.empty()) {
    name = space + "." + name;
  }
  if (InstanceText(object, "_overloadname") == "default") name += ".default";
  return "torch.ops." + name;
}

bool BelongsToModuleOrType(PyObject* builtin) {
  PyObject* const self = PyCFunction_GET_SELF(builtin);
  return self == nullptr || PyModule_Check(self) || PyType_Check(self);
}

// A nested function: a new object each time, whatever its name, since functools.wraps gives it another's.
bool IsMadeByCalls(PyObject* function) {
  return (reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function))->co_flags & CO_NESTED) != 0;
}

Api MakeApi(std::string name, bool is_public) {
  Api api;
  api.head = ConfigBuilder::EncodeHead(1, name);
  api.name = std::move(name);
  api.is_public = is_public;
  return api;
}

}  // namespace

ApiNames* ApiNames::Loaded() {
  static ApiNames* loaded = nullptr;
  if (loaded == nullptr) {
    loaded = new ApiNames;
    loaded->Load();
  }
  return loaded;
}

// Runs no Python code: the program's trace functions would see it, and its signal handlers could run, and raise, inside
// it.
void ApiNames::Load() {
  std::unordered_map<PyObject*, Rank> best;
  for (size_t order = 0; order < std::size(kNamespaces); ++order) {
    const std::string space(kNamespaces[order]);
    PyObject* const owner = FindNamespace(space);
    if (owner == nullptr) continue;
    ForEachFunction(owner, [&](PyObject* name, PyObject* function) {
      const std::string own = TextOf(name);
      std::string full = space + "." + own;
      Rank rank = {own.starts_with('_'),
                   std::count(full.begin(), full.end(), '.'),
                   own == "__idiv__" || own == "__rdiv__",
                   full.size(),
                   order,
                   full};
      const auto [known, is_new] = best.emplace(function, rank);
      if (!is_new && rank < known->second) known->second = std::move(rank);
    });
  }
  for (auto& [function, rank] : best) Cache(function, MakeApi(std::move(rank.name), true));
}

const Api& ApiNames::Cache(PyObject* keep_alive, Api api) {
  Py_INCREF(keep_alive);
  return *(by_function_[keep_alive] = std::make_unique<Api>(std::move(api)));
}

const Api& ApiNames::Resolve(PyObject* function) {
  if (const auto found = by_function_.find(function); found != by_function_.end()) return *found->second;

  PyTypeObject* const type = Py_TYPE(function);

  std::string name = OperatorObjectName(function);
  const bool is_operator = !name.empty();
  // torch.device and other types are called as well.
  const bool is_type = PyType_Check(function);
  if (is_type) name = TypeName(reinterpret_cast<PyTypeObject*>(function));
  if (!is_operator && !is_type) name = Public(CallableName(function));
  const bool lives_on = is_operator || type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
                        (PyCFunction_Check(function) && BelongsToModuleOrType(function)) ||
                        (PyFunction_Check(function) && !IsMadeByCalls(function));
  if (lives_on && by_function_.size() < kMaxCached) return Cache(function, MakeApi(std::move(name), false));
  return uncached_ = MakeApi(std::move(name), false);
}

}  // namespace torchtrace::torch_dialect
