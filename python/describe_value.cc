// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "python/describe_value.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "dialects/python/describe/int_digits.h"
#include "dialects/python/describe/object_names.h"
#include "dialects/python/describe/python_text.h"
#include "serialize/model/config_builder.h"
#include "serialize/model/value.h"

namespace torchtrace {
namespace {

class Describer {
 public:
  Describer(PyObject* special, std::string* out) : special_(special), out_(out), values_(out) {}

  bool Value(PyObject* value) {
    PyTypeObject* const type = Py_TYPE(value);
    if (value == Py_None) return values_.None(), true;
    if (type == &PyBool_Type) return values_.Bool(value == Py_True), true;
    if (type == &PyLong_Type) return Long(value);
    if (type == &PyFloat_Type) return values_.Float(PyFloat_AS_DOUBLE(value)), true;
    if (type == &PyComplex_Type) {
      const Py_complex number = reinterpret_cast<PyComplexObject*>(value)->cval;
      return values_.Complex(number.real, number.imag), true;
    }
    if (type == &PyUnicode_Type) return String(value);
    if (type == &PyBytes_Type) {
      const std::string_view bytes(PyBytes_AS_STRING(value), static_cast<size_t>(PyBytes_GET_SIZE(value)));
      return values_.Bytes(bytes.substr(0, kMaxStringBytes), bytes.size()), true;
    }
    if (type == &PyTuple_Type) return Sequence(ValueTag::kTuple, value);
    if (type == &PyList_Type) return Sequence(ValueTag::kList, value);
    if (type == &PyDict_Type) return Dict(value);
    if (PyAnySet_CheckExact(value)) return Set(value);
    if (type == &PySlice_Type) {
      const auto* const slice = reinterpret_cast<PySliceObject*>(value);
      values_.BeginSlice();
      return Value(slice->start) && Value(slice->stop) && Value(slice->step);
    }
    if (value == Py_Ellipsis) return values_.Ellipsis(), true;
    return Special(value);
  }

 private:
  bool Special(PyObject* value) {
    PyObject* const found = special_ == nullptr ? Py_NewRef(Py_None) : PyObject_CallOneArg(special_, value);
    if (found == nullptr) return false;
    bool good = true;
    if (found == Py_None) {
      Other(value);
    } else if (PyUnicode_Check(found)) {
      values_.Named(ValueTag::kObject, TextOf(found));
    } else if (PyDict_Check(found)) {
      good = Array(found) || Dict(found);
    } else {
      PyErr_Format(PyExc_TypeError, "serialize_special_type returns a dict, a str or None, not %.100s",
                   Py_TYPE(found)->tp_name);
      good = false;
    }
    Py_DECREF(found);
    return good && PyErr_Occurred() == nullptr;
  }

  void Other(PyObject* value) {
    if (PyType_Check(value)) {
      return values_.Named(ValueTag::kType, TypeName(reinterpret_cast<PyTypeObject*>(value)));
    }
    if (PyFunction_Check(value)) return values_.Named(ValueTag::kFunction, CallableName(value));
    values_.Named(ValueTag::kObject, TypeName(Py_TYPE(value)));
  }

  // False without an error set: it describes something else.
  bool Array(PyObject* properties) {
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
    if (device != nullptr) {
      values_.BeginTensor(0, TextOf(dtype), TextOf(device));
      values_.Dims(dims.data(), dims.size());
    } else {
      values_.BeginNdarray(TextOf(dtype), dims.size());
      for (const int64_t dim : dims) values_.Dim(dim);
    }
    return true;
  }

  bool Long(PyObject* value) {
    int overflow;
    const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) return values_.Int(number), true;
    return values_.Named(ValueTag::kBigInt, IntDigits(value)), true;
  }

  bool String(PyObject* value) {
    const PythonText text(value, kMaxStringBytes);
    return values_.String(text.kept(), text.whole_bytes()), true;
  }

  bool Sequence(ValueTag tag, PyObject* sequence) {
    if (depth_ == kMaxDepth) return values_.Deep(), true;
    ++depth_;
    const auto whole = static_cast<size_t>(Py_SIZE(sequence));
    const size_t written = std::min(whole, kMaxItems);
    values_.Container(tag, whole, written);
    bool good = true;
    for (size_t i = 0; good && i < written; ++i) {
      // An extension may change a list while it is asked of its items.
      PyObject* const item = static_cast<size_t>(Py_SIZE(sequence)) > i
                                 ? Py_NewRef(PySequence_Fast_GET_ITEM(sequence, static_cast<Py_ssize_t>(i)))
                                 : Py_NewRef(Py_None);
      good = Value(item);
      Py_DECREF(item);
    }
    --depth_;
    return good;
  }

  bool Dict(PyObject* dict) {
    if (depth_ == kMaxDepth) return values_.Deep(), true;
    ++depth_;
    PyObject* const items = PyDict_Items(dict);
    bool good = items != nullptr;
    const size_t whole = good ? static_cast<size_t>(PyList_GET_SIZE(items)) : 0;
    const size_t written = std::min(whole, kMaxItems);
    values_.Container(ValueTag::kDict, whole, written);
    for (size_t i = 0; good && i < written; ++i) {
      PyObject* const item = PyList_GET_ITEM(items, static_cast<Py_ssize_t>(i));
      good = Value(PyTuple_GET_ITEM(item, 0)) && Value(PyTuple_GET_ITEM(item, 1));
    }
    Py_XDECREF(items);
    --depth_;
    return good;
  }

  // Sorted by their bytes, so that equal sets have equal ones.
  bool Set(PyObject* set) {
    if (depth_ == kMaxDepth) return values_.Deep(), true;
    ++depth_;
    PyObject* const list = PySequence_List(set);
    bool good = list != nullptr;
    const size_t whole = good ? static_cast<size_t>(PyList_GET_SIZE(list)) : 0;
    const size_t written = std::min(whole, kMaxItems);
    values_.Container(PyFrozenSet_CheckExact(set) ? ValueTag::kFrozenSet : ValueTag::kSet, whole, written);
    const size_t start = out_->size();
    std::vector<std::string> items;
    for (size_t i = 0; good && i < written; ++i) {
      good = Value(PyList_GET_ITEM(list, static_cast<Py_ssize_t>(i)));
      items.push_back(out_->substr(start));
      out_->resize(start);
    }
    std::sort(items.begin(), items.end());
    for (const std::string& item : items) out_->append(item);
    Py_XDECREF(list);
    --depth_;
    return good;
  }

  PyObject* const special_;
  std::string* const out_;
  ValueWriter values_;
  int depth_ = 0;
};

}  // namespace

bool DescribeValue(PyObject* value, PyObject* special, std::string* out) {
  return Describer(special, out).Value(value);
}

}  // namespace torchtrace
