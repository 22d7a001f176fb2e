#include "dialects/paddle/describe_paddle.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dialects/python/describe/value_describer.h"
#include "serialize/model/torch_names.h"
#include "tracer/cpython/objects.h"
#include "tracer/python/python_patch.h"

namespace torchtrace::paddle_dialect {
namespace {

constexpr std::string_view kFramework = "paddle";

// The C functions that read a tensor: copies, since level 0 may put its entries into the objects that hold them.
struct TensorFunctions {
  PyGetSetDef shape = {}, dtype = {}, place = {}, strides = {}, stop_gradient = {};
  PyCFunctionWithKeywords is_dense = nullptr, is_sparse_coo = nullptr, is_sparse_csr = nullptr,
                          is_selected_rows = nullptr;
};

// An enumeration of dtypes. A member may be several objects, since copying and unpickling make new ones.
struct DtypeEnum {
  PyTypeObject* type = nullptr;
  std::map<int32_t, std::string> names;  // only of dtypes
};

struct PlaceType {
  PyTypeObject* type = nullptr;
  PyObject* shown = nullptr;  // what str() calls
};

// Kept for ever.
struct Types {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* size = nullptr;  // a list
  // paddle.dtype, and the older one that Paddle's own code still passes.
  std::array<DtypeEnum, 2> dtypes;
  std::vector<PlaceType> places;
  std::map<std::pair<uint16_t, uint64_t>, std::string> place_names;  // by what distinguishes places
  TensorFunctions functions;
};
Types& Known() {
  static auto* const types = new Types;
  return *types;
}

// The C++ object behind an object of Python: pybind11 keeps the pointer right after the head. Null before its __init__
// has run.
const void* Behind(PyObject* object) { return *reinterpret_cast<const void* const*>(object + 1); }

template <typename Number>
Number NumberAt(const void* place, size_t offset) {
  Number number;
  std::memcpy(&number, static_cast<const char*>(place) + offset, sizeof number);
  return number;
}

// An owned reference; for null, the Python error is cleared.
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

// Sets a Python error aside, and keeps the garbage collector from running.
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

// False if it is not a list.
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

const DtypeEnum* EnumOf(PyTypeObject* type) {
  const auto& dtypes = Known().dtypes;
  const auto found = std::find_if(dtypes.begin(), dtypes.end(), [&](const DtypeEnum& e) { return e.type == type; });
  return found == dtypes.end() ? nullptr : &*found;
}

// Empty if it is not a dtype.
std::string_view DtypeName(PyObject* dtype) {
  const DtypeEnum* const members = dtype == nullptr ? nullptr : EnumOf(Py_TYPE(dtype));
  if (members == nullptr || Behind(dtype) == nullptr) return "";
  const auto found = members->names.find(NumberAt<int32_t>(Behind(dtype), 0));
  return found == members->names.end() ? std::string_view() : found->second;
}

const PlaceType* PlaceTypeOf(PyTypeObject* type) {
  const auto& places = Known().places;
  const auto found = std::find_if(places.begin(), places.end(), [&](const PlaceType& p) { return p.type == type; });
  return found == places.end() ? nullptr : &*found;
}

// "gpu:0" for Place(gpu:0). The text of each place is made once: it takes a microsecond.
std::string_view PlaceName(PyObject* place) {
  const PlaceType* const type = place == nullptr ? nullptr : PlaceTypeOf(Py_TYPE(place));
  if (type == nullptr || Behind(place) == nullptr) return "unknown";
  // phi::Place: a byte for the device's number, one for its kind, and eight for the kind of a custom device.
  const std::pair key(NumberAt<uint16_t>(Behind(place), 0), NumberAt<uint64_t>(Behind(place), 8));
  if (const auto known = Known().place_names.find(key); known != Known().place_names.end()) return known->second;
  const Owned shown(PyObject_CallOneArg(type->shown, place));
  if (shown.get() == nullptr || !PyUnicode_Check(shown.get())) return "unknown";
  std::string text = TextOf(shown.get());
  constexpr std::string_view kOpen = "Place(";
  if (text.starts_with(kOpen) && text.ends_with(')')) text = text.substr(kOpen.size(), text.size() - kOpen.size() - 1);
  return Known().place_names.emplace(key, std::move(text)).first->second;
}

// Null if it is dense.
const char* LayoutName(PyObject* tensor) {
  const TensorFunctions& functions = Known().functions;
  if (Holds(functions.is_dense, tensor)) return nullptr;
  if (Holds(functions.is_sparse_coo, tensor)) return "sparse_coo";
  if (Holds(functions.is_sparse_csr, tensor)) return "sparse_csr";
  return Holds(functions.is_selected_rows, tensor) ? "selected_rows" : nullptr;
}

void DescribeTensor(PyObject* tensor, PyTypeObject* type, ConfigBuilder* config) {
  const TensorFunctions& functions = Known().functions;
  std::vector<Dim> shape, strides;
  const bool has_shape = ReadSizes(Owned(Get(functions.shape, tensor)).get(), &shape);
  const char* const layout = LayoutName(tensor);
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
  const std::string_view dtype_name = DtypeName(dtype.get());
  values.BeginTensor(bits, dtype_name.empty() ? "unknown" : dtype_name, PlaceName(place.get()));
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
    if (const std::string_view dtype = DtypeName(value); !dtype.empty()) {
      return values.Named(ValueTag::kDtype, dtype), true;
    }
    if (PlaceTypeOf(type) != nullptr) return values.Named(ValueTag::kDevice, PlaceName(value)), true;
    return false;
  }
};

PyTypeObject* TypeIn(PyObject* module, const char* name) {
  const Owned type(module == nullptr ? nullptr : PyObject_GetAttrString(module, name));
  return type.get() == nullptr || !PyType_Check(type.get()) ? nullptr
                                                            : reinterpret_cast<PyTypeObject*>(Py_NewRef(type.get()));
}

bool FindProperty(PyTypeObject* type, const char* name, PyGetSetDef* property) {
  PyObject* const found = PyDict_GetItemString(DictOf(type), name);
  if (found == nullptr || Py_TYPE(found) != &PyGetSetDescr_Type) return false;
  *property = *reinterpret_cast<PyGetSetDescrObject*>(found)->d_getset;
  return property->get != nullptr;
}

bool FindMethod(PyTypeObject* type, const char* name, PyCFunctionWithKeywords* method) {
  PyObject* const found = PyDict_GetItemString(DictOf(type), name);
  if (found == nullptr || Py_TYPE(found) != &PyMethodDescr_Type) return false;
  const PyMethodDef* const definition = reinterpret_cast<PyMethodDescrObject*>(found)->d_method;
  *method = reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void*>(definition->ml_meth));
  return definition->ml_flags == (METH_VARARGS | METH_KEYWORDS);
}

// float32 for FLOAT32, and for FP32 of the older enumeration.
std::string SpelledDtype(std::string_view member) {
  std::string text(member);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  if (text.starts_with("fp")) return "float" + text.substr(2);
  return text == "bf16" ? "bfloat16" : text;
}

// `known`: the dtypes, since the type has other members too; null: all members are dtypes. False if the type is not as
// expected.
bool FindDtypes(PyTypeObject* type, const DtypeEnum* known, DtypeEnum* dtypes) {
  const Owned members(type == nullptr ? nullptr
                                      : PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__members__"));
  if (members.get() == nullptr || !PyDict_Check(members.get())) return false;
  dtypes->type = type;
  PyObject *name, *member;
  for (Py_ssize_t at = 0; PyDict_Next(members.get(), &at, &name, &member);) {
    const Owned number(PyNumber_Long(member));
    const auto value = NumberAt<int32_t>(Behind(member), 0);
    if (number.get() == nullptr || PyLong_AsLong(number.get()) != value) return false;
    std::string text = SpelledDtype(TextOf(name));
    const bool is_dtype = known == nullptr || std::any_of(known->names.begin(), known->names.end(),
                                                          [&](const auto& other) { return other.second == text; });
    if (is_dtype) dtypes->names.emplace(value, std::move(text));
  }
  return !dtypes->names.empty();
}

void FindPlaces(PyObject* core, std::vector<PlaceType>* places) {
  for (const char* const name :
       {"Place", "CPUPlace", "CUDAPlace", "CUDAPinnedPlace", "XPUPlace", "XPUPinnedPlace", "IPUPlace", "CustomPlace"}) {
    PyTypeObject* const type = TypeIn(core, name);
    PyObject* const shown = type == nullptr ? nullptr : PyDict_GetItemString(DictOf(type), "__str__");
    if (shown == nullptr || !PyInstanceMethod_Check(shown)) continue;
    places->push_back({type, Py_NewRef(PyInstanceMethod_Function(shown))});
  }
}

}  // namespace

bool InitDescribePaddle() {
  Types& known = Known();
  if (known.tensor != nullptr) return true;
  PyObject* const core = ImportedModule(kCore);
  PyObject* const paddle = ImportedModule("paddle");
  PyTypeObject* const tensor = TypeIn(paddle, "Tensor");
  known.size = TypeIn(core, "Size");  // Paddle before 3.1 has lists in its place
  const Owned variables(core == nullptr ? nullptr : PyObject_GetAttrString(core, "VarDesc"));
  if (tensor == nullptr || core == nullptr) return false;
  FindPlaces(core, &known.places);
  TensorFunctions& functions = known.functions;
  const bool complete =
      FindProperty(tensor, "shape", &functions.shape) && FindProperty(tensor, "dtype", &functions.dtype) &&
      FindProperty(tensor, "place", &functions.place) && FindProperty(tensor, "strides", &functions.strides) &&
      FindProperty(tensor, "stop_gradient", &functions.stop_gradient) &&
      FindMethod(tensor, "is_dense", &functions.is_dense) &&
      FindMethod(tensor, "is_sparse_coo", &functions.is_sparse_coo) &&
      FindMethod(tensor, "is_sparse_csr", &functions.is_sparse_csr) &&
      FindMethod(tensor, "is_selected_rows", &functions.is_selected_rows) &&
      FindDtypes(TypeIn(core, "DataType"), nullptr, &known.dtypes[0]) &&
      FindDtypes(TypeIn(variables.get(), "VarType"), &known.dtypes[0], &known.dtypes[1]) && !known.places.empty();
  if (complete) known.tensor = tensor;
  return complete;
}

void DescribePaddle(PyObject* value, ConfigBuilder* config) {
  const Undisturbed undisturbed;
  ValueDescriber<PaddleValues>(config).Value(value);
}

}  // namespace torchtrace::paddle_dialect
