#include "dialects/torch/api_names.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "dialects/python/config_builder.h"
#include "dialects/torch/describe_python.h"
#include "dialects/torch/python_source.h"

namespace torchtrace::torch_dialect {
namespace {

constexpr size_t kMaxCached = 20000;

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

Api MakeApi(std::string name, bool is_public) {
  Api api;
  api.head = ConfigBuilder::EncodeHead(1, name);
  api.name = std::move(name);
  api.is_public = is_public;
  return api;
}

}  // namespace

absl::StatusOr<ApiNames*> ApiNames::Loaded() {
  static ApiNames* loaded = nullptr;
  if (loaded != nullptr) return loaded;
  auto names = std::make_unique<ApiNames>();
  if (absl::Status status = names->Load(); !status.ok()) return status;
  return loaded = names.release();
}

absl::Status ApiNames::Load() {
  PyObject* const module = LoadPythonSource("api_names");
  PyObject* const names = module == nullptr ? nullptr : PyObject_CallMethod(module, "public_names", nullptr);
  Py_XDECREF(module);
  if (names == nullptr || !PyList_Check(names)) {
    PyErr_Clear();
    Py_XDECREF(names);
    return absl::InternalError("cannot read the names of torch's functions");
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names); ++i) {
    PyObject* const pair = PyList_GET_ITEM(names, i);
    Cache(PyTuple_GET_ITEM(pair, 0), MakeApi(TextOf(PyTuple_GET_ITEM(pair, 1)), true));
  }
  Py_DECREF(names);
  return absl::OkStatus();
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
                        (PyFunction_Check(function) && name.find("<locals>") == std::string::npos);
  if (lives_on && by_function_.size() < kMaxCached) return Cache(function, MakeApi(std::move(name), false));
  return uncached_ = MakeApi(std::move(name), false);
}

}  // namespace torchtrace::torch_dialect
