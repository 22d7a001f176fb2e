#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/python_variable.h>

#include <vector>

#include "dialects/python/describe/value_describer.h"
#include "dialects/torch/describe/describe.h"
#include "dialects/torch/describe/enum_names.h"
#include "dialects/torch/describe/tensor_notes.h"
#include "tracer/cpython/interpreter.h"
#include "tracer/python/python_patch.h"

namespace torchtrace::torch_dialect {
namespace {

// Checked with PyType_IsSubtype: isinstance, which torch's own checks use, may call an object's __class__.
struct Types {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* parameter = nullptr;
  PyTypeObject* sym_int = nullptr;
  PyTypeObject* sym_float = nullptr;
  PyTypeObject* sym_bool = nullptr;
  PyTypeObject* storage = nullptr;
  PyTypeObject* typed_storage = nullptr;
  PyTypeObject* generator = nullptr;
  PyTypeObject* script_object = nullptr;
};
Types g_types;

// What PyTorch adds to the description of values.
struct TorchValues {
  using Reference = Borrowed;
  using Describer = ValueDescriber<TorchValues>;

  static bool First(PyObject* value, PyTypeObject* type, Describer* describer) {
    if (type != g_types.tensor && type != g_types.parameter) return false;
    DescribePythonTensor(value, describer->config());
    return true;
  }

  static bool Own(PyObject* value, PyTypeObject* type, Describer* describer) {
    ConfigBuilder::Writer& values = describer->values();
    if (THPDtype_Check(value)) {
      return values.Named(ValueTag::kDtype, DtypeName(reinterpret_cast<THPDtype*>(value)->scalar_type)), true;
    }
    if (THPDevice_Check(value)) {
      return values.Named(ValueTag::kDevice, DeviceName(reinterpret_cast<THPDevice*>(value)->device)), true;
    }
    if (THPSize_Check(value)) return describer->Sequence(ValueTag::kSize, value), true;
    if (!PyType_IsSubtype(type, g_types.tensor)) return false;
    DescribePythonTensor(value, describer->config());
    return true;
  }

  static bool Rare(PyObject* value, PyTypeObject* type, Describer* describer) {
    ConfigBuilder::Writer& values = describer->values();
    if (type == g_types.sym_int) return values.Named(ValueTag::kSymbol, "SymInt"), true;
    if (type == g_types.sym_float) return values.Named(ValueTag::kSymbol, "SymFloat"), true;
    if (type == g_types.sym_bool) return values.Named(ValueTag::kSymbol, "SymBool"), true;
    if (THPLayout_Check(value)) {
      return values.Named(ValueTag::kLayout, LayoutName(reinterpret_cast<THPLayout*>(value)->layout)), true;
    }
    if (THPMemoryFormat_Check(value)) {
      const auto* const format = reinterpret_cast<THPMemoryFormat*>(value);
      return values.Named(ValueTag::kMemoryFormat, MemoryFormatName(format->memory_format)), true;
    }
    if (PyType_IsSubtype(type, g_types.generator)) {
      const at::Device device = reinterpret_cast<THPGenerator*>(value)->cdata.device();
      return values.Named(ValueTag::kGenerator, DeviceName(device)), true;
    }
    if (PyType_IsSubtype(type, g_types.storage)) return Storage(value, &values), true;
    if (type == g_types.typed_storage) {
      PyObject* const untyped = InstanceAttribute(value, "_untyped_storage");
      if (untyped != nullptr && PyType_IsSubtype(Py_TYPE(untyped), g_types.storage)) {
        return Storage(untyped, &values), true;
      }
    }
    if (const std::string name = PybindValueName(value, type); !name.empty()) {
      return values.Named(ValueTag::kObject, name), true;
    }
    return false;
  }

 private:
  static void Storage(PyObject* value, ConfigBuilder::Writer* values) {
    const c10::StorageImpl* const storage = THPStorage_Unpack(value).unsafeGetStorageImpl();
    if (storage == nullptr || storage->sym_nbytes().is_heap_allocated()) {
      return values->Named(ValueTag::kObject, TypeName(Py_TYPE(value)));
    }
    values->Storage(DeviceName(storage->device()), storage->sym_nbytes().as_int_unchecked());
  }
};

PyTypeObject* TorchType(const char* module_name, const char* name) {
  PyObject* const module = ImportedModule(module_name);
  if (module == nullptr) return nullptr;
  return reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(module, name));
}

// Whether objects whose memory is read have the sizes of torch's headers.
bool AreLaidOutAsBuilt() {
  const auto fits = [](const char* module, const char* name, size_t bytes) {
    PyTypeObject* const type = TorchType(module, name);
    const bool same = type != nullptr && static_cast<size_t>(type->tp_basicsize) == bytes;
    Py_XDECREF(type);
    return same;
  };
  return fits("torch._C", "TensorBase", sizeof(THPVariable)) && fits("torch._C", "StorageBase", sizeof(THPStorage)) &&
         fits("torch", "Generator", sizeof(THPGenerator)) && fits("torch", "device", sizeof(THPDevice)) &&
         fits("torch", "dtype", sizeof(THPDtype)) && fits("torch", "layout", sizeof(THPLayout)) &&
         fits("torch", "memory_format", sizeof(THPMemoryFormat));
}

}  // namespace

bool InitDescribePython() {
  if (!AreLaidOutAsBuilt()) return false;
  InitEnumNames();
  g_types.tensor = TorchType("torch", "Tensor");
  g_types.parameter = TorchType("torch.nn.parameter", "Parameter");
  g_types.sym_int = TorchType("torch", "SymInt");
  g_types.sym_float = TorchType("torch", "SymFloat");
  g_types.sym_bool = TorchType("torch", "SymBool");
  g_types.storage = TorchType("torch", "UntypedStorage");
  g_types.typed_storage = TorchType("torch", "TypedStorage");
  g_types.generator = TorchType("torch", "Generator");
  g_types.script_object = TorchType("torch", "ScriptObject");
  return g_types.tensor && g_types.parameter && g_types.sym_int && g_types.sym_float && g_types.sym_bool &&
         g_types.storage && g_types.typed_storage && g_types.generator && g_types.script_object;
}

bool IsTensorType(const PyTypeObject* type) { return type == g_types.tensor; }

const at::Tensor* TensorOfPython(PyObject* object) {
  if (!PyType_IsSubtype(Py_TYPE(object), g_types.tensor)) return nullptr;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return tensor.defined() ? &tensor : nullptr;
}

bool VisitTensorsOfPython(void (*visit)(const at::Tensor& tensor)) {
  const std::vector<PyObject*> objects = CollectedObjects();
  for (PyObject* object : objects) {
    if (const at::Tensor* const tensor = TensorOfPython(object)) visit(*tensor);
  }
  return !objects.empty();
}

void DescribePython(PyObject* value, ConfigBuilder* config) { ValueDescriber<TorchValues>(config).Value(value); }

namespace {

// The number of a type's name, which programs may change. 0: it has none.
class NumberedType {
 public:
  uint32_t Number(PyTypeObject* type) {
    if (state_.IsOf(type)) [[likely]]
      return number_;
    ++number_;
    return state_.Take(type) ? number_ : 0;
  }

 private:
  TypeState state_;
  uint32_t number_ = 0;
};

}  // namespace

void AddPythonToKey(PyObject* value, CallKey* key) {
  PyTypeObject* const type = Py_TYPE(value);
  if (type == g_types.tensor) return DescribeTensor(THPVariable_Unpack(value), 0, key);
  if (type == &PyLong_Type) {
    int overflow;
    const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow == 0 ? key->Int(number) : key->Fail();
  }
  if (value == Py_None) return key->None();
  if (type == &PyBool_Type) return key->Bool(value == Py_True);
  if (type == &PyFloat_Type) return key->Float(PyFloat_AS_DOUBLE(value));
  if (type == g_types.parameter) {
    static NumberedType parameter;
    const uint32_t number = parameter.Number(type);
    return number == 0 ? key->Fail() : DescribeTensor(THPVariable_Unpack(value), number, key);
  }
  if (type == g_types.script_object) {
    static NumberedType script_object;
    const uint32_t number = script_object.Number(type);
    return number == 0 ? key->Fail() : key->Named(ValueTag::kObject, number);
  }
  if (type == &PyUnicode_Type) {
    return IsText(value) && PyUnicode_IS_ASCII(value) ? key->String(AsciiText(value)) : key->Fail();
  }
  const auto sequence = [&](ValueTag tag) {
    key->Container(tag, static_cast<size_t>(Py_SIZE(value)), [&](size_t i) {
      PyObject* const item = PySequence_Fast_ITEMS(value)[i];
      AddPythonToKey(item == nullptr ? Py_None : item, key);
    });
  };
  if (type == &PyTuple_Type) return sequence(ValueTag::kTuple);
  if (type == &PyList_Type) return sequence(ValueTag::kList);
  if (THPSize_Check(value)) return sequence(ValueTag::kSize);
  if (THPDtype_Check(value)) {
    return key->Named(ValueTag::kDtype, static_cast<uint8_t>(reinterpret_cast<THPDtype*>(value)->scalar_type));
  }
  if (THPDevice_Check(value)) return DescribeDevice(reinterpret_cast<THPDevice*>(value)->device, key);
  key->Fail();
}

namespace {

// The tensor that a wrapper of torch's keeps its elements in; null: there is none. At levels above the dispatcher the
// wrapper is all that calls take and return.
const at::Tensor* InnerOf(const at::Tensor& wrapper, PyObject* object) {
  const c10::DispatchKeySet keys = wrapper.unsafeGetTensorImpl()->key_set();
  if (!keys.has(c10::DispatchKey::Python)) return nullptr;
  PyObject* const inner = keys.has(c10::DispatchKey::NestedTensor) ? InstanceAttribute(object, "_values")    // jagged
                                                                   : StructMember(object, "_local_tensor");  // DTensor
  if (inner == nullptr || !PyType_IsSubtype(Py_TYPE(inner), g_types.tensor)) return nullptr;
  const at::Tensor& tensor = THPVariable_Unpack(inner);
  return tensor.defined() ? &tensor : nullptr;
}

}  // namespace

void CountPythonAsWritten(PyObject* value) {
  const bool is_sequence = PyList_Check(value) || PyTuple_Check(value);
  const Py_ssize_t count = is_sequence ? Py_SIZE(value) : 1;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const one = is_sequence ? PySequence_Fast_ITEMS(value)[i] : value;
    if (PyType_IsSubtype(Py_TYPE(one), g_types.tensor)) CountAsWritten(THPVariable_Unpack(one));
  }
}

bool IsSize(PyObject* value) {
  if (PyLong_Check(value) || THPSize_Check(value)) return true;
  return PyIndex_Check(value) && !PySequence_Check(value) && !PyType_IsSubtype(Py_TYPE(value), g_types.tensor);
}

void DescribePythonTensor(PyObject* object, ConfigBuilder* config) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  PyTypeObject* const type = Py_TYPE(object);
  if (type == g_types.tensor) return DescribeTensor(tensor, {}, config);
  std::string device;
  // A fake tensor is a meta tensor that plays one on another device.
  PyObject* const fake = type == g_types.parameter ? nullptr : InstanceAttribute(object, "_fake_device");
  if (fake != nullptr && THPDevice_Check(fake)) device = DeviceName(reinterpret_cast<THPDevice*>(fake)->device);
  DescribeTensor(tensor, FactsOf(type).name, config, device, NumbersAreWanted() ? InnerOf(tensor, object) : nullptr);
}

}  // namespace torchtrace::torch_dialect
