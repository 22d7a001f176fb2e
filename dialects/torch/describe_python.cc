#include "dialects/torch/describe_python.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "dialects/torch/describe_tensor.h"

namespace torchtrace::torch_dialect {
namespace {

// Asked for with PyType_IsSubtype: isinstance, and torch's own checks by it, may
// call an object's __class__.
struct Types {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* parameter = nullptr;
  PyTypeObject* sym_int = nullptr;
  PyTypeObject* sym_float = nullptr;
  PyTypeObject* sym_bool = nullptr;
  PyTypeObject* storage = nullptr;
  PyTypeObject* typed_storage = nullptr;
  PyTypeObject* generator = nullptr;
  PyObject* fake_device = nullptr;  // interned attribute names
  PyObject* untyped_storage = nullptr;
  PyObject* module_name = nullptr;
};
Types g_types;

// The start of numpy's PyArrayObject and PyArray_Descr, the same in numpy 1 and
// 2: reading them needs no numpy at build time and no call into it.
struct NumpyArray {
  PyObject_HEAD char* data;
  int rank;
  Py_ssize_t* sizes;
  Py_ssize_t* strides;
  PyObject* base;
  struct NumpyDtype* dtype;
};
struct NumpyDtype {
  PyObject_HEAD PyTypeObject* scalar_type;
};

bool StartsWith(const char* text, std::string_view prefix) {
  return std::string_view(text).substr(0, prefix.size()) == prefix;
}

std::string NumpyScalarName(PyTypeObject* scalar_type) {
  std::string_view name = scalar_type->tp_name;
  if (StartsWith(scalar_type->tp_name, "numpy.")) name.remove_prefix(6);
  return std::string(name);
}

// numpy's own static types are found by name along the bases, so that a
// subclass defined in Python still counts.
PyTypeObject* NumpyBase(PyTypeObject* type, const char* base_name, PyTypeObject** cache) {
  for (PyTypeObject* base = type; base != nullptr; base = base->tp_base) {
    if (base == *cache) return base;
    if (*cache == nullptr && !(base->tp_flags & Py_TPFLAGS_HEAPTYPE) && std::string_view(base->tp_name) == base_name) {
      return *cache = base;
    }
  }
  return nullptr;
}

class Describer {
 public:
  explicit Describer(ConfigBuilder* config) : config_(config), values_(config->values()) {}

  void Value(PyObject* value) {
    PyTypeObject* const type = Py_TYPE(value);
    if (type == g_types.tensor || type == g_types.parameter) return DescribePythonTensor(value, config_);
    if (type == &PyLong_Type) return Long(value);
    if (value == Py_None) return values_.None();
    if (type == &PyBool_Type) return values_.Bool(value == Py_True);
    if (type == &PyFloat_Type) return values_.Float(PyFloat_AS_DOUBLE(value));
    if (type == &PyUnicode_Type) return String(value);
    if (type == &PyTuple_Type) return Sequence(ValueTag::kTuple, value);
    if (type == &PyList_Type) return Sequence(ValueTag::kList, value);
    if (THPDtype_Check(value)) {
      return values_.Named(ValueTag::kDtype, DtypeName(reinterpret_cast<THPDtype*>(value)->scalar_type));
    }
    if (THPDevice_Check(value)) {
      return values_.Named(ValueTag::kDevice, DeviceName(reinterpret_cast<THPDevice*>(value)->device));
    }
    if (THPSize_Check(value)) return Sequence(ValueTag::kSize, value);
    Other(value, type);
  }

 private:
  void Other(PyObject* value, PyTypeObject* type) {
    if (PyType_IsSubtype(type, g_types.tensor)) return DescribePythonTensor(value, config_);
    if (Numpy(value, type)) return;
    if (PyLong_Check(value)) return Long(value);  // an IntEnum or the like
    if (PyFloat_Check(value)) return values_.Float(PyFloat_AS_DOUBLE(value));
    if (PyComplex_Check(value)) {
      const Py_complex number = reinterpret_cast<PyComplexObject*>(value)->cval;
      return values_.Complex(number.real, number.imag);
    }
    if (PyUnicode_Check(value)) return String(value);
    if (PyBytes_Check(value)) {
      const std::string_view bytes(PyBytes_AS_STRING(value), static_cast<size_t>(PyBytes_GET_SIZE(value)));
      return values_.Bytes(bytes.substr(0, kMaxStringBytes), bytes.size());
    }
    if (PyTuple_Check(value)) return Sequence(ValueTag::kTuple, value);  // named tuples, return types
    if (PyList_Check(value)) return Sequence(ValueTag::kList, value);
    if (PyDict_Check(value)) return Dict(value);
    if (PyAnySet_Check(value)) return Set(value);
    if (type == &PySlice_Type) return Slice(reinterpret_cast<PySliceObject*>(value));
    if (value == Py_Ellipsis) return values_.Ellipsis();
    if (type == g_types.sym_int) return values_.Named(ValueTag::kSymbol, "SymInt");
    if (type == g_types.sym_float) return values_.Named(ValueTag::kSymbol, "SymFloat");
    if (type == g_types.sym_bool) return values_.Named(ValueTag::kSymbol, "SymBool");
    if (THPLayout_Check(value)) {
      return values_.Named(ValueTag::kLayout, LayoutName(reinterpret_cast<THPLayout*>(value)->layout));
    }
    if (THPMemoryFormat_Check(value)) {
      return values_.Named(ValueTag::kMemoryFormat,
                           MemoryFormatName(reinterpret_cast<THPMemoryFormat*>(value)->memory_format));
    }
    if (PyType_IsSubtype(type, g_types.generator)) {
      return values_.Named(ValueTag::kGenerator, DeviceName(reinterpret_cast<THPGenerator*>(value)->cdata.device()));
    }
    if (PyType_IsSubtype(type, g_types.storage)) return Storage(value);
    if (type == g_types.typed_storage) {
      PyObject* const untyped = InstanceAttribute(value, g_types.untyped_storage);
      if (untyped != nullptr && PyType_IsSubtype(Py_TYPE(untyped), g_types.storage)) return Storage(untyped);
    }
    if (PyType_Check(value)) {
      return values_.Named(ValueTag::kType, TypeName(reinterpret_cast<PyTypeObject*>(value)));
    }
    if (PyFunction_Check(value) || PyCFunction_Check(value) || PyMethod_Check(value) || type == &PyMethodDescr_Type ||
        type == &PyWrapperDescr_Type || type == &_PyMethodWrapper_Type) {
      return values_.Named(ValueTag::kFunction, CallableName(value));
    }
    if (type == &PyRange_Type) return Range(value);
    values_.Named(ValueTag::kObject, TypeName(type));
  }

  void Long(PyObject* value) {
    int overflow;
    const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) return values_.Int(number);
    // _PyLong_Format is int's own: a subclass's __str__ is not asked. Beyond
    // sys.get_int_max_str_digits() it refuses.
    PyObject* const digits = _PyLong_Format(value, 10);
    if (digits == nullptr) {
      PyErr_Clear();
      return values_.Named(ValueTag::kObject, "int");
    }
    values_.Named(ValueTag::kBigInt, Utf8(digits));
    Py_DECREF(digits);
  }

  void String(PyObject* value) {
    std::string_view text = Utf8(value);
    PyObject* escaped = nullptr;
    if (text.empty() && PyUnicode_GET_LENGTH(value) > 0) {  // lone surrogates, as \udc80
      escaped = PyUnicode_AsEncodedString(value, "utf-8", "surrogatepass");
      if (escaped != nullptr) {
        text = {PyBytes_AS_STRING(escaped), static_cast<size_t>(PyBytes_GET_SIZE(escaped))};
      } else {
        PyErr_Clear();
      }
    }
    values_.String(KeptText(text), text.size());
    Py_XDECREF(escaped);
  }

  // Items are as they are while this runs: no Python code runs, and a list's
  // storage is read anew each time.
  void Sequence(ValueTag tag, PyObject* sequence) {
    const size_t whole = static_cast<size_t>(Py_SIZE(sequence));
    if (!Enter()) return;
    const size_t written = config_->full() ? 0 : std::min(whole, kMaxItems);
    values_.Container(tag, whole, written);
    PyObject* const* items = PyList_Check(sequence) ? reinterpret_cast<PyListObject*>(sequence)->ob_item
                                                    : reinterpret_cast<PyTupleObject*>(sequence)->ob_item;
    for (size_t i = 0; i < written; ++i) Value(items[i]);
    --depth_;
  }

  void Dict(PyObject* dict) {
    const size_t whole = static_cast<size_t>(PyDict_GET_SIZE(dict));
    if (!Enter()) return;
    const size_t written = config_->full() ? 0 : std::min(whole, kMaxItems);
    values_.Container(ValueTag::kDict, whole, written);
    PyObject *key, *item;
    Py_ssize_t position = 0;
    for (size_t i = 0; i < written && PyDict_Next(dict, &position, &key, &item); ++i) {
      Value(key);
      Value(item);
    }
    --depth_;
  }

  // A set's order depends on addresses and hash seeds: sorted, equal sets have
  // equal bytes. Tensors in sets are described out of order of their facets;
  // they hash by identity, so there is no better order.
  void Set(PyObject* set) {
    const size_t whole = static_cast<size_t>(PySet_GET_SIZE(set));
    if (!Enter()) return;
    const size_t written = config_->full() ? 0 : std::min(whole, kMaxItems);
    const ValueTag tag = PyFrozenSet_Check(set) ? ValueTag::kFrozenSet : ValueTag::kSet;
    values_.Container(tag, whole, written);
    std::string* const bytes = config_->bytes();
    const size_t start = bytes->size();
    std::vector<std::string> items;
    PyObject* item;
    Py_hash_t hash;
    Py_ssize_t position = 0;
    for (size_t i = 0; i < written && _PySet_NextEntry(set, &position, &item, &hash); ++i) {
      Value(item);
      items.push_back(bytes->substr(start));
      bytes->resize(start);
    }
    std::sort(items.begin(), items.end());
    for (const std::string& text : items) bytes->append(text);
    --depth_;
  }

  void Slice(PySliceObject* slice) {
    if (!Enter()) return;
    values_.BeginSlice();
    Value(slice->start);
    Value(slice->stop);
    Value(slice->step);
    --depth_;
  }

  // range keeps its three ints behind its struct's head; its members are plain
  // descriptors of C, safe to call.
  void Range(PyObject* range) {
    if (!Enter()) return;
    values_.BeginRange();
    for (const char* name : {"start", "stop", "step"}) {
      PyObject* const part = PyObject_GetAttrString(range, name);
      Value(part);
      Py_DECREF(part);
    }
    --depth_;
  }

  void Storage(PyObject* value) {
    const c10::StorageImpl* const storage = THPStorage_Unpack(value).unsafeGetStorageImpl();
    if (storage == nullptr || storage->sym_nbytes().is_heap_allocated()) {
      return values_.Named(ValueTag::kObject, TypeName(Py_TYPE(value)));
    }
    values_.Storage(DeviceName(storage->device()), storage->sym_nbytes().as_int_unchecked());
  }

  bool Numpy(PyObject* value, PyTypeObject* type) {
    static PyTypeObject* array_type = nullptr;
    static PyTypeObject* scalar_type = nullptr;
    if (NumpyBase(type, "numpy.ndarray", &array_type) != nullptr) {
      const auto* const array = reinterpret_cast<NumpyArray*>(value);
      values_.BeginNdarray(NumpyScalarName(array->dtype->scalar_type), static_cast<uint64_t>(array->rank));
      for (int i = 0; i < array->rank; ++i) values_.Dim(array->sizes[i]);
      return true;
    }
    if (NumpyBase(type, "numpy.generic", &scalar_type) != nullptr) {
      values_.Named(ValueTag::kNumpyScalar, NumpyScalarName(type));
      return true;
    }
    return false;
  }

  bool Enter() {
    if (depth_ < kMaxDepth) {
      ++depth_;
      return true;
    }
    values_.Deep();
    return false;
  }

  ConfigBuilder* const config_;
  ValueWriter values_;
  int depth_ = 0;
};

PyTypeObject* TorchType(const char* module_name, const char* name) {
  PyObject* const module = PyImport_ImportModule(module_name);
  if (module == nullptr) return nullptr;
  PyObject* const type = PyObject_GetAttrString(module, name);
  Py_DECREF(module);
  return reinterpret_cast<PyTypeObject*>(type);
}

// Names of tensor subclasses by type. A type lives as long as its name is
// cached: the cache holds a reference. Programs make few such types; beyond a
// bound names are made anew each time.
const std::string& SubclassName(PyTypeObject* type) {
  static auto* const names = new std::unordered_map<PyTypeObject*, std::string>();
  static auto* const uncached = new std::string();
  constexpr size_t kMaxTypes = 1000;
  if (const auto found = names->find(type); found != names->end()) return found->second;
  if (names->size() >= kMaxTypes) return *uncached = TypeName(type);
  Py_INCREF(type);
  return (*names)[type] = TypeName(type);
}

// A heap type's __module__ as the class statement stored it.
std::string ModuleOf(PyTypeObject* type) {
  PyObject* const module =
      type->tp_dict == nullptr ? nullptr : PyDict_GetItemWithError(type->tp_dict, g_types.module_name);
  return module == nullptr ? "" : std::string(Utf8(module));
}

std::string Dotted(std::string_view module, std::string_view name) {
  if (module.empty() || module == "builtins") return std::string(name);
  return std::string(module) + "." + std::string(name);
}

}  // namespace

PyObject* InstanceAttribute(PyObject* object, PyObject* name) {
  PyObject** const dict = _PyObject_GetDictPtr(object);
  return dict == nullptr || *dict == nullptr ? nullptr : PyDict_GetItemWithError(*dict, name);
}

bool InitDescribePython() {
  g_types.tensor = TorchType("torch", "Tensor");
  g_types.parameter = TorchType("torch.nn.parameter", "Parameter");
  g_types.sym_int = TorchType("torch", "SymInt");
  g_types.sym_float = TorchType("torch", "SymFloat");
  g_types.sym_bool = TorchType("torch", "SymBool");
  g_types.storage = TorchType("torch", "UntypedStorage");
  g_types.typed_storage = TorchType("torch", "TypedStorage");
  g_types.generator = TorchType("torch", "Generator");
  g_types.fake_device = PyUnicode_InternFromString("_fake_device");
  g_types.untyped_storage = PyUnicode_InternFromString("_untyped_storage");
  g_types.module_name = PyUnicode_InternFromString("__module__");
  return g_types.tensor && g_types.parameter && g_types.sym_int && g_types.sym_float && g_types.sym_bool &&
         g_types.storage && g_types.typed_storage && g_types.generator;
}

void DescribePython(PyObject* value, ConfigBuilder* config) { Describer(config).Value(value); }

void DescribePythonTensor(PyObject* object, ConfigBuilder* config) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  PyTypeObject* const type = Py_TYPE(object);
  if (type == g_types.tensor) return DescribeTensor(tensor, {}, config);
  std::string device;
  // A fake tensor is a meta tensor that plays one on another device.
  if (PyObject* const fake = InstanceAttribute(object, g_types.fake_device); fake && THPDevice_Check(fake)) {
    device = DeviceName(reinterpret_cast<THPDevice*>(fake)->device);
  }
  DescribeTensor(tensor, SubclassName(type), config, device);
}

std::string TypeName(PyTypeObject* type) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return type->tp_name;
  const auto* const heap = reinterpret_cast<PyHeapTypeObject*>(type);
  return Dotted(ModuleOf(type), Utf8(heap->ht_qualname));
}

std::string CallableName(PyObject* callable) {
  if (PyMethod_Check(callable)) return CallableName(PyMethod_GET_FUNCTION(callable));
  if (PyFunction_Check(callable)) {
    const auto* const function = reinterpret_cast<PyFunctionObject*>(callable);
    return Dotted(function->func_module ? Utf8(function->func_module) : "", Utf8(function->func_qualname));
  }
  if (PyCFunction_Check(callable)) {
    const auto* const function = reinterpret_cast<PyCFunctionObject*>(callable);
    if (function->m_self != nullptr && PyType_Check(function->m_self)) {
      return TypeName(reinterpret_cast<PyTypeObject*>(function->m_self)) + "." + function->m_ml->ml_name;
    }
    return Dotted(function->m_module ? Utf8(function->m_module) : "", function->m_ml->ml_name);
  }
  PyTypeObject* const type = Py_TYPE(callable);
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type) {
    const auto* const descriptor = reinterpret_cast<PyDescrObject*>(callable);
    return TypeName(descriptor->d_type) + "." + std::string(Utf8(descriptor->d_name));
  }
  return TypeName(type);
}

std::string_view Utf8(PyObject* text) {
  if (text == nullptr || !PyUnicode_Check(text)) return {};
  Py_ssize_t bytes;
  const char* const data = PyUnicode_AsUTF8AndSize(text, &bytes);
  if (data == nullptr) {  // lone surrogates
    PyErr_Clear();
    return {};
  }
  return {data, static_cast<size_t>(bytes)};
}

}  // namespace torchtrace::torch_dialect
