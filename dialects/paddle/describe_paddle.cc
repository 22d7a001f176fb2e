#include "dialects/paddle/describe_paddle.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/python/describe/value_describer.h"
#include "serialize/model/torch_names.h"
#include "tracer/python/python_patch.h"

namespace torchtrace::paddle_dialect {
namespace {

constexpr std::string_view kFramework = "paddle";

// What a description asks of a tensor: the C functions themselves, since entries of level 0 may be put into the
// objects that hold them.
struct TensorFunctions {
  PyGetSetDef shape = {}, dtype = {}, place = {}, strides = {}, stop_gradient = {};
  PyCFunctionWithKeywords is_sparse_coo = nullptr, is_sparse_csr = nullptr;
};

// Kept for ever.
struct Types {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* size = nullptr;               // a list
  PyTypeObject* dtype = nullptr;              // an enumeration, whose members are one object each
  std::map<PyTypeObject*, PyObject*> places;  // and what str() calls
  std::map<PyObject*, std::string> dtype_names;
  TensorFunctions functions;
};
Types& Known() {
  static auto* const types = new Types;
  return *types;
}

// A reference that is ours; the error of who made it is cleared.
class Owned {
 public:
  explicit Owned(PyObject* object) : object_(object) {
    if (object == nullptr) PyErr_Clear();
  }
  ~Owned() { Py_XDECREF(object_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  PyObject* get() const { return object_; }

 private:
  PyObject* const object_;
};

// Sets a Python error aside, and keeps the collector from running.
class Undisturbed {
 public:
  Undisturbed() : collects_(PyGC_Disable() != 0) { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~Undisturbed() {
    PyErr_Restore(type_, value_, traceback_);
    if (collects_) PyGC_Enable();
  }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  const bool collects_;
  PyObject *type_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

PyObject* Get(const PyGetSetDef& property, PyObject* tensor) { return property.get(tensor, property.closure); }

bool Holds(PyCFunctionWithKeywords function, PyObject* tensor) {
  const Owned no_arguments(PyTuple_New(0));
  const Owned result(no_arguments.get() == nullptr ? nullptr : function(tensor, no_arguments.get(), nullptr));
  return result.get() == Py_True;
}

// False where it is no list of ints.
bool ReadSizes(PyObject* list, std::vector<Dim>* sizes) {
  if (list == nullptr || !PyList_Check(list)) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    const long long size = PyLong_Check(PyList_GET_ITEM(list, i)) ? PyLong_AsLongLong(PyList_GET_ITEM(list, i)) : -1;
    sizes->push_back(size < 0 ? Dim() : Dim(size));
  }
  PyErr_Clear();
  return true;
}

void AppendDims(const std::vector<Dim>& dims, ConfigBuilder::Writer* values) {
  values->Rank(dims.size());
  for (const Dim& dim : dims) dim.has_value() ? values->Dim(*dim) : values->SymbolicDim();
}

std::string_view DtypeName(PyObject* dtype) {
  const auto found = Known().dtype_names.find(dtype);
  return found == Known().dtype_names.end() ? std::string_view("unknown") : found->second;
}

// "gpu:0", of Place(gpu:0) and of a tensor's place.
std::string PlaceName(PyObject* place) {
  const auto found = Known().places.find(Py_TYPE(place));
  if (found == Known().places.end()) return "unknown";
  const Owned shown(PyObject_CallOneArg(found->second, place));
  if (shown.get() == nullptr || !PyUnicode_Check(shown.get())) return "unknown";
  const std::string text = TextOf(shown.get());
  constexpr std::string_view kOpen = "Place(";
  const bool usual = text.starts_with(kOpen) && text.ends_with(')');
  return usual ? text.substr(kOpen.size(), text.size() - kOpen.size() - 1) : text;
}

void DescribeTensor(PyObject* tensor, PyTypeObject* type, ConfigBuilder* config) {
  const TensorFunctions& functions = Known().functions;
  std::vector<Dim> shape, strides;
  const bool has_shape = ReadSizes(Owned(Get(functions.shape, tensor)).get(), &shape);
  const char* const layout = Holds(functions.is_sparse_coo, tensor)   ? "sparse_coo"
                             : Holds(functions.is_sparse_csr, tensor) ? "sparse_csr"
                                                                      : nullptr;
  const bool has_strides = has_shape && layout == nullptr &&
                           ReadSizes(Owned(Get(functions.strides, tensor)).get(), &strides) &&
                           strides.size() == shape.size() && !IsContiguous(shape, strides);
  const Owned dtype(Get(functions.dtype, tensor));
  const Owned place(Get(functions.place, tensor));
  const Owned stop_gradient(Get(functions.stop_gradient, tensor));

  uint64_t bits = 0;
  if (!has_shape) bits |= kTensorShapeUnknown;
  if (has_strides) bits |= kTensorHasStride;
  if (layout != nullptr) bits |= kTensorHasLayout;
  ConfigBuilder::Writer values = config->values();
  values.BeginTensor(bits, DtypeName(dtype.get()), place.get() == nullptr ? "unknown" : PlaceName(place.get()));
  if (has_shape) AppendDims(shape, &values);
  if (has_strides) AppendDims(strides, &values);
  if (layout != nullptr) values.Layout(layout);
  config->EndTensor(stop_gradient.get() == Py_False, type == Known().tensor ? "" : TypeName(type));
}

// What Paddle adds to the description of values.
struct PaddleValues {
  using Reference = Borrowed;
  using Describer = ValueDescriber<PaddleValues>;

  static bool First(PyObject*, PyTypeObject*, Describer*) { return false; }

  static bool Own(PyObject* value, PyTypeObject* type, Describer* describer) {
    const bool known = Describe(value, type, describer);
    if (known) describer->config()->OfFramework(kFramework);
    return known;
  }

  static bool Rare(PyObject*, PyTypeObject*, Describer*) { return false; }

 private:
  static bool Describe(PyObject* value, PyTypeObject* type, Describer* describer) {
    ConfigBuilder::Writer& values = describer->values();
    const Types& known = Known();
    if (PyType_IsSubtype(type, known.tensor)) return DescribeTensor(value, type, describer->config()), true;
    if (type == known.size) return describer->Sequence(ValueTag::kSize, value), true;
    if (type == known.dtype) return values.Named(ValueTag::kDtype, DtypeName(value)), true;
    if (known.places.contains(type)) return values.Named(ValueTag::kDevice, PlaceName(value)), true;
    return false;
  }
};

PyTypeObject* TypeIn(PyObject* module, const char* name) {
  const Owned type(module == nullptr ? nullptr : PyObject_GetAttrString(module, name));
  return type.get() == nullptr || !PyType_Check(type.get()) ? nullptr
                                                            : reinterpret_cast<PyTypeObject*>(Py_NewRef(type.get()));
}

bool FindProperty(PyTypeObject* type, const char* name, PyGetSetDef* property) {
  PyObject* const found = PyDict_GetItemString(type->tp_dict, name);
  if (found == nullptr || Py_TYPE(found) != &PyGetSetDescr_Type) return false;
  *property = *reinterpret_cast<PyGetSetDescrObject*>(found)->d_getset;
  return property->get != nullptr;
}

bool FindMethod(PyTypeObject* type, const char* name, PyCFunctionWithKeywords* method) {
  PyObject* const found = PyDict_GetItemString(type->tp_dict, name);
  if (found == nullptr || Py_TYPE(found) != &PyMethodDescr_Type) return false;
  const PyMethodDef* const definition = reinterpret_cast<PyMethodDescrObject*>(found)->d_method;
  *method = reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void*>(definition->ml_meth));
  return definition->ml_flags == (METH_VARARGS | METH_KEYWORDS);
}

// FLOAT32 is float32.
bool FindDtypes(PyTypeObject* dtype, std::map<PyObject*, std::string>* names) {
  const Owned members(PyObject_GetAttrString(reinterpret_cast<PyObject*>(dtype), "__members__"));
  if (members.get() == nullptr || !PyDict_Check(members.get())) return false;
  PyObject *name, *member;
  for (Py_ssize_t at = 0; PyDict_Next(members.get(), &at, &name, &member);) {
    std::string text = TextOf(name);
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    (*names)[Py_NewRef(member)] = std::move(text);
  }
  return !names->empty();
}

void FindPlaces(PyObject* core, std::map<PyTypeObject*, PyObject*>* places) {
  for (const char* const name :
       {"Place", "CPUPlace", "CUDAPlace", "CUDAPinnedPlace", "XPUPlace", "XPUPinnedPlace", "IPUPlace", "CustomPlace"}) {
    PyTypeObject* const type = TypeIn(core, name);
    PyObject* const shown = type == nullptr ? nullptr : PyDict_GetItemString(type->tp_dict, "__str__");
    if (shown == nullptr || !PyInstanceMethod_Check(shown)) continue;
    places->emplace(type, Py_NewRef(PyInstanceMethod_Function(shown)));
  }
}

}  // namespace

bool InitDescribePaddle() {
  Types& known = Known();
  if (known.tensor != nullptr) return true;
  PyObject* const core = ImportedModule("paddle.base.libpaddle");
  PyObject* const paddle = ImportedModule("paddle");
  PyTypeObject* const tensor = TypeIn(paddle, "Tensor");
  known.size = TypeIn(core, "Size");  // Paddle before 3.1 has lists in its place
  known.dtype = TypeIn(paddle, "dtype");
  if (tensor == nullptr || core == nullptr || known.dtype == nullptr) return false;
  FindPlaces(core, &known.places);
  TensorFunctions& functions = known.functions;
  const bool complete =
      FindProperty(tensor, "shape", &functions.shape) && FindProperty(tensor, "dtype", &functions.dtype) &&
      FindProperty(tensor, "place", &functions.place) && FindProperty(tensor, "strides", &functions.strides) &&
      FindProperty(tensor, "stop_gradient", &functions.stop_gradient) &&
      FindMethod(tensor, "is_sparse_coo", &functions.is_sparse_coo) &&
      FindMethod(tensor, "is_sparse_csr", &functions.is_sparse_csr) && FindDtypes(known.dtype, &known.dtype_names) &&
      !known.places.empty();
  if (complete) known.tensor = tensor;
  return complete;
}

void DescribePaddle(PyObject* value, ConfigBuilder* config) {
  const Undisturbed undisturbed;
  ValueDescriber<PaddleValues>(config).Value(value);
}

}  // namespace torchtrace::paddle_dialect
