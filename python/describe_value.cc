// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "python/describe_value.h"

#include <cstdint>
#include <vector>

#include "dialects/python/describe/value_describer.h"

namespace torchtrace {
namespace {

// What the extension is asked of: everything but the builtin types themselves.
struct Extension {
  using Describer = ValueDescriber<Extension>;

  // The extension's code may let go of what is being described.
  class Reference {
   public:
    explicit Reference(PyObject* value) : value_(Py_NewRef(value)) {}
    ~Reference() { Py_DECREF(value_); }
    Reference(const Reference&) = delete;

   private:
    PyObject* const value_;
  };

  PyObject* special = nullptr;

  static bool First(PyObject*, PyTypeObject*, Describer*) { return false; }
  static bool Rare(PyObject*, PyTypeObject*, Describer*) { return false; }

  bool Own(PyObject* value, PyTypeObject* type, Describer* describer) const {
    if (type == &PyComplex_Type || type == &PyBytes_Type || type == &PyDict_Type || PyAnySet_CheckExact(value) ||
        type == &PySlice_Type || value == Py_Ellipsis) {
      return false;
    }
    if (PyErr_Occurred() != nullptr) return describer->values().None(), true;
    PyObject* const found = special == nullptr ? Py_NewRef(Py_None) : PyObject_CallOneArg(special, value);
    if (found == nullptr || found == Py_None) {
      Other(value, type, &describer->values());
    } else if (PyUnicode_Check(found)) {
      describer->values().Named(ValueTag::kObject, TextOf(found));
    } else if (!PyDict_Check(found)) {
      PyErr_Format(PyExc_TypeError, "serialize_special_type returns a dict, a str or None, not %.100s",
                   Py_TYPE(found)->tp_name);
    } else if (!Array(found, describer) && PyErr_Occurred() == nullptr) {
      describer->Dict(found);
    }
    Py_XDECREF(found);
    return true;
  }

 private:
  static void Other(PyObject* value, PyTypeObject* type, ConfigBuilder::Writer* values) {
    if (PyType_Check(value)) return values->Named(ValueTag::kType, TypeName(reinterpret_cast<PyTypeObject*>(value)));
    if (PyFunction_Check(value)) return values->Named(ValueTag::kFunction, CallableName(value));
    values->Named(ValueTag::kObject, TypeName(type));
  }

  // False without an error set: it describes something else.
  static bool Array(PyObject* properties, Describer* describer) {
    PyObject* const dtype = PyDict_GetItemString(properties, "dtype");
    PyObject* const device = PyDict_GetItemString(properties, "device");
    PyObject* const shape = PyDict_GetItemString(properties, "shape");
    if (dtype == nullptr || shape == nullptr || !PyUnicode_Check(dtype)) return false;
    PyObject* const sizes = PySequence_Fast(shape, "\"shape\" is no sequence");
    if (sizes == nullptr) return false;
    std::vector<int64_t> dims;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sizes); ++i) {
      PyObject* const size = PyNumber_Index(PySequence_Fast_GET_ITEM(sizes, i));
      dims.push_back(size == nullptr ? 0 : PyLong_AsLongLong(size));
      Py_XDECREF(size);
    }
    Py_DECREF(sizes);
    if (PyErr_Occurred() != nullptr) return false;
    ConfigBuilder::Writer& values = describer->values();
    if (device != nullptr) {
      values.BeginTensor(0, TextOf(dtype), TextOf(device));
      values.Dims(dims.data(), dims.size());
      describer->config()->EndTensor(/*requires_grad=*/false, /*subclass=*/{});
    } else {
      values.BeginNdarray(TextOf(dtype), dims.size());
      for (const int64_t dim : dims) values.Dim(dim);
    }
    return true;
  }
};

}  // namespace

bool DescribeValue(PyObject* value, PyObject* special, ConfigBuilder* config) {
  ValueDescriber<Extension>(config, {special}).Value(value);
  return PyErr_Occurred() == nullptr;
}

}  // namespace torchtrace
