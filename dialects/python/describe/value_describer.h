// Describes any Python object, passively: reads fields of known C types and the storage of builtin containers. It calls
// no Python code, not even __getattr__ or __repr__, raises nothing and keeps nothing alive. Nor does it create Python
// objects: that could start the garbage collector, and so finalizers.

#ifndef TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_VALUE_DESCRIBER_H_
#define TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_VALUE_DESCRIBER_H_

#include <Python.h>
#include <structmember.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dialects/python/describe/object_names.h"
#include "serialize/model/config_builder.h"
#include "serialize/model/value.h"
#include "tracer/cpython/objects.h"

namespace torchtrace {

// The start of numpy's PyArrayObject and PyArray_Descr, the same in numpy 1 and 2. So we need no numpy at build time,
// and never call into it.
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

inline bool StartsWith(const char* text, std::string_view prefix) {
  return std::string_view(text).substr(0, prefix.size()) == prefix;
}

inline std::string NumpyScalarName(PyTypeObject* scalar_type) {
  std::string_view name = scalar_type->tp_name;
  if (StartsWith(scalar_type->tp_name, "numpy.")) name.remove_prefix(6);
  return std::string(name);
}

// Finds numpy's static types by name along the bases, so that subclasses defined in Python count too.
inline PyTypeObject* NumpyBase(PyTypeObject* type, const char* base_name, PyTypeObject** cache) {
  for (PyTypeObject* base = type; base != nullptr; base = base->tp_base) {
    if (base == *cache) return base;
    if (*cache == nullptr && !(base->tp_flags & Py_TPFLAGS_HEAPTYPE) && std::string_view(base->tp_name) == base_name) {
      return *cache = base;
    }
  }
  return nullptr;
}

// A Framework::Reference for a framework that runs nothing that could free the value.
struct Borrowed {
  explicit Borrowed(PyObject*) {}
};

// Describes a value; needs the GIL. `Framework` describes the framework's types, by functions of (PyObject* value,
// PyTypeObject* type, ValueDescriber<Framework>*) that return false for a value they don't know:
//   First: called before all else, for what most arguments are
//   Own: before numpy's arrays and subclasses of builtin types
//   Rare: after these
// Framework::Reference keeps a value alive while it is described: Borrowed, unless the framework runs Python code.
template <typename Framework>
class ValueDescriber {
 public:
  using Reference = typename Framework::Reference;

  explicit ValueDescriber(ConfigBuilder* config, Framework framework = {})
      : framework_(framework), config_(config), values_(config->values()) {}

  ConfigBuilder* config() { return config_; }
  ConfigBuilder::Writer& values() { return values_; }

  void Value(PyObject* value) {
    [[maybe_unused]] const Reference kept(value);
    PyTypeObject* const type = Py_TYPE(value);
    if (framework_.First(value, type, this)) return;
    if (type == &PyLong_Type) return Long(value);
    if (value == Py_None) return values_.None();
    if (type == &PyBool_Type) return values_.Bool(value == Py_True);
    if (type == &PyFloat_Type) return values_.Float(PyFloat_AS_DOUBLE(value));
    if (type == &PyUnicode_Type) return String(value);
    if (type == &PyTuple_Type) return Sequence(ValueTag::kTuple, value);
    if (type == &PyList_Type) return Sequence(ValueTag::kList, value);
    if (framework_.Own(value, type, this)) return;
    Other(value, type);
  }

  void Sequence(ValueTag tag, PyObject* sequence) {
    // Reads size and storage each time, although nothing that runs here should change them.
    config_->Container(tag, static_cast<size_t>(Py_SIZE(sequence)), [&](size_t i) {
      PyObject* const item = i < static_cast<size_t>(Py_SIZE(sequence)) ? PySequence_Fast_ITEMS(sequence)[i] : nullptr;
      // A tuple under construction has null items; programs get it from gc.
      Value(item == nullptr ? Py_None : item);
    });
  }

  void Dict(PyObject* dict) {
    Py_ssize_t position = 0;
    config_->Container(ValueTag::kDict, static_cast<size_t>(PyDict_GET_SIZE(dict)), [&](size_t) {
      PyObject *key = Py_None, *item = Py_None;
      PyDict_Next(dict, &position, &key, &item);
      [[maybe_unused]] const Reference kept(item);
      Value(key);
      Value(item);
    });
  }

 private:
  void Other(PyObject* value, PyTypeObject* type) {
    if (Numpy(value, type)) return;
    if (PyLong_Check(value)) return Long(value);  // members of an IntEnum too
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
    if (framework_.Rare(value, type, this)) return;
    if (PyType_Check(value)) {
      return values_.Named(ValueTag::kType, TypeName(reinterpret_cast<PyTypeObject*>(value)));
    }
    if (PyFunction_Check(value) || PyCFunction_Check(value) || PyMethod_Check(value) || type == &PyMethodDescr_Type ||
        type == &PyWrapperDescr_Type || type == MethodWrapperType()) {
      return values_.Named(ValueTag::kFunction, CallableName(value));
    }
    if (type == &PyRange_Type) return Range(value);
    values_.Named(ValueTag::kObject, ObjectName(value));
  }

  void Long(PyObject* value) {
    int overflow;
    const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) return values_.Int(number);
    values_.Named(ValueTag::kBigInt, IntDigits(value));
  }

  void String(PyObject* value) {
    const PythonText text(value, kMaxStringBytes);
    values_.String(text.kept(), text.whole_bytes());
  }

  void Set(PyObject* set) {
    const ValueTag tag = PyFrozenSet_Check(set) ? ValueTag::kFrozenSet : ValueTag::kSet;
    Py_ssize_t position = 0;
    config_->Set(tag, static_cast<size_t>(PySet_GET_SIZE(set)), [&](size_t) {
      PyObject* item = Py_None;
      NextOfSet(set, &position, &item);
      Value(item);
    });
  }

  void Slice(PySliceObject* slice) {
    if (!config_->GoIn()) return;
    values_.BeginSlice();
    Value(slice->start);
    Value(slice->stop);
    Value(slice->step);
    config_->GoOut();
  }

  // The struct is private to CPython; the type's member table has the offsets.
  void Range(PyObject* range) {
    if (!config_->GoIn()) return;
    values_.BeginRange();
    for (const char* name : {"start", "stop", "step"}) {
      const PyMemberDef* member = PyRange_Type.tp_members;
      while (std::string_view(member->name) != name) ++member;
      Value(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(range) + member->offset));
    }
    config_->GoOut();
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

  const Framework framework_;
  ConfigBuilder* const config_;
  ConfigBuilder::Writer values_;
};

// For programs without a framework.
struct NoFramework {
  using Reference = Borrowed;
  static bool First(PyObject*, PyTypeObject*, ValueDescriber<NoFramework>*) { return false; }
  static bool Own(PyObject*, PyTypeObject*, ValueDescriber<NoFramework>*) { return false; }
  static bool Rare(PyObject*, PyTypeObject*, ValueDescriber<NoFramework>*) { return false; }
};

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_VALUE_DESCRIBER_H_
