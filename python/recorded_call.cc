// Python.h must come first.
#define PY_SSIZE_T_CLEAN
#include <cstdint>
#include <string_view>
#include <vector>

#include "dialects/python/describe/value_describer.h"
#include "python/python_dialect.h"
#include "serialize/model/config_builder.h"
#include "tracer/record/recorder.h"

namespace torchtrace {
namespace {

// Asks the extension about all values except those of builtin types.
struct Extension {
  using Describer = ValueDescriber<Extension>;

  // The extension's code may release the described object.
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
      Other(value, &describer->values());
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
  static void Other(PyObject* value, ConfigBuilder::Writer* values) {
    if (PyType_Check(value)) return values->Named(ValueTag::kType, TypeName(reinterpret_cast<PyTypeObject*>(value)));
    if (PyFunction_Check(value)) return values->Named(ValueTag::kFunction, CallableName(value));
    values->Named(ValueTag::kObject, ObjectName(value));
  }

  // False without an error set: it is not an array.
  static bool Array(PyObject* properties, Describer* describer) {
    PyObject* const dtype = PyDict_GetItemString(properties, "dtype");
    PyObject* const device = PyDict_GetItemString(properties, "device");
    PyObject* const shape = PyDict_GetItemString(properties, "shape");
    if (dtype == nullptr || shape == nullptr || !PyUnicode_Check(dtype)) return false;
    PyObject* const sizes = PySequence_Fast(shape, "\"shape\" is not a sequence");
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

namespace {

struct RecordedCall {
  PyObject_HEAD ThreadRecorder* thread;  // null: the call has ended
};

void EndCall(PyObject* self, PyObject* exception_type) {
  auto* const call = reinterpret_cast<RecordedCall*>(self);
  ThreadRecorder* const thread = call->thread;
  call->thread = nullptr;
  // A call that ends on another thread is not recorded.
  if (thread == nullptr || thread != Recorder::Get()->ThisThread()) return;
  if (exception_type == nullptr || !PyType_Check(exception_type)) return thread->Leave();
  auto* const type = reinterpret_cast<PyTypeObject*>(exception_type);
  const bool is_heap = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
  const std::string name = is_heap ? TextOf(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname) : type->tp_name;
  thread->Raise(name);
}

void Dealloc(PyObject* self) {
  EndCall(self, nullptr);
  Py_TYPE(self)->tp_free(self);
}

PyObject* Enter(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyObject* Exit(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  EndCall(self, count > 0 && args[0] != Py_None ? args[0] : nullptr);
  Py_RETURN_FALSE;
}

PyMethodDef g_methods[] = {
    {"__enter__", Enter, METH_NOARGS, nullptr},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(Exit)), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyTypeObject g_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool ReadyType() {
  if (g_type.tp_name != nullptr) return true;
  g_type.tp_name = "torchtrace.RecordedCall";
  g_type.tp_basicsize = sizeof(RecordedCall);
  g_type.tp_flags = Py_TPFLAGS_DEFAULT;
  g_type.tp_dealloc = Dealloc;
  g_type.tp_methods = g_methods;
  return PyType_Ready(&g_type) == 0;
}

}  // namespace

PyObject* RecordCall(PyObject*, PyObject* arguments) {
  int level;
  const char* api;
  Py_ssize_t api_bytes;
  PyObject *args, *kwargs, *special;
  if (!PyArg_ParseTuple(arguments, "is#O!O!O", &level, &api, &api_bytes, &PyTuple_Type, &args, &PyDict_Type, &kwargs,
                        &special)) {
    return nullptr;
  }
  if (!Recorder::Recording()) Py_RETURN_NONE;
  // Not the thread's builder: while it describes values, the extension's code may record another call.
  ConfigBuilder config;
  config.Begin(ConfigBuilder::EncodeHead(level, {api, static_cast<size_t>(api_bytes)}));
  config.Positional(static_cast<size_t>(PyTuple_GET_SIZE(args)));
  PyObject* const asked = special == Py_None ? nullptr : special;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    if (!DescribeValue(PyTuple_GET_ITEM(args, i), asked, &config)) return nullptr;
  }
  config.Keywords(static_cast<size_t>(PyDict_GET_SIZE(kwargs)));
  PyObject* const items = PyDict_Items(kwargs);
  for (Py_ssize_t i = 0; items != nullptr && i < PyList_GET_SIZE(items); ++i) {
    PyObject* const item = PyList_GET_ITEM(items, i);
    Py_ssize_t bytes;
    const char* const name = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(item, 0), &bytes);
    if (name == nullptr) break;
    config.Keyword({name, static_cast<size_t>(bytes)});
    if (!DescribeValue(PyTuple_GET_ITEM(item, 1), asked, &config)) break;
  }
  Py_XDECREF(items);
  if (PyErr_Occurred() != nullptr || !ReadyType()) return nullptr;
  auto* const call = PyObject_New(RecordedCall, &g_type);
  if (call == nullptr) return nullptr;
  ThreadRecorder* const thread = Recorder::Get()->ThisThread();
  const std::string_view bytes = config.Finish();
  call->thread = thread != nullptr && thread->Enter(bytes, config.identity_bytes()) ? thread : nullptr;
  return reinterpret_cast<PyObject*>(call);
}

}  // namespace torchtrace
