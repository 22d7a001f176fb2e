// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "dialects/python/describe/object_names.h"

#include "dialects/python/describe/python_text.h"

namespace torchtrace {
namespace {

// A dictionary's own look-up asks keys of the program's types whether they are
// equal, so it isn't used. Borrowed.
PyObject* Find(PyObject* dict, std::string_view name) {
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (TextIs(key, name)) return value;
  }
  return nullptr;
}

// A heap type's __module__ as the class statement stored it.
std::string ModuleOf(PyTypeObject* type) {
  return type->tp_dict == nullptr ? "" : TextOf(Find(type->tp_dict, "__module__"));
}

std::string Dotted(const std::string& module, const std::string& name) {
  return module.empty() || module == "builtins" ? name : module + "." + name;
}

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000

// internal/pycore_dict.h, which C++ can't read: the names of the attributes that a class's
// objects have. The values stand in the same order.
struct SharedKeys {
  Py_ssize_t references;
  uint8_t log2_size;
  uint8_t log2_index_bytes;
  uint8_t kind;
  uint32_t version;
  Py_ssize_t usable;
  Py_ssize_t count;

  PyObject* name(Py_ssize_t i) const {
    struct Entry {
      PyObject* name;
      PyObject* value;
    };
    const char* const indices = reinterpret_cast<const char*>(this + 1);
    return reinterpret_cast<const Entry*>(indices + (size_t{1} << log2_index_bytes))[i].name;
  }
};

// Null when the object has a dictionary, or nothing of the kind.
PyObject** InlineValues(PyObject* object) {
  const bool managed = (Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0;
  return managed ? reinterpret_cast<PyObject***>(object)[-4] : nullptr;
}

#endif

}  // namespace

PyObject* InstanceAttribute(PyObject* object, std::string_view name) {
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
  // _PyObject_GetDictPtr would make a dictionary of them, which may start the collector.
  if (PyObject** const values = InlineValues(object); values != nullptr) {
    const auto* const type = reinterpret_cast<PyHeapTypeObject*>(Py_TYPE(object));
    const auto* const keys = reinterpret_cast<const SharedKeys*>(type->ht_cached_keys);
    for (Py_ssize_t i = 0; i < keys->count; ++i) {
      if (TextIs(keys->name(i), name)) return values[i];
    }
    return nullptr;
  }
#endif
  PyObject** const dict = _PyObject_GetDictPtr(object);
  return dict == nullptr || *dict == nullptr ? nullptr : Find(*dict, name);
}

std::string TypeName(PyTypeObject* type) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return type->tp_name;
  return Dotted(ModuleOf(type), TextOf(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname));
}

std::string CallableName(PyObject* callable) {
  if (PyMethod_Check(callable)) return CallableName(PyMethod_GET_FUNCTION(callable));
  if (PyFunction_Check(callable)) {
    const auto* const function = reinterpret_cast<PyFunctionObject*>(callable);
    return Dotted(TextOf(function->func_module), TextOf(function->func_qualname));
  }
  if (PyCFunction_Check(callable)) {
    const auto* const function = reinterpret_cast<PyCFunctionObject*>(callable);
    if (function->m_self != nullptr && PyType_Check(function->m_self)) {
      return TypeName(reinterpret_cast<PyTypeObject*>(function->m_self)) + "." + function->m_ml->ml_name;
    }
    return Dotted(TextOf(function->m_module), function->m_ml->ml_name);
  }
  PyTypeObject* const type = Py_TYPE(callable);
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type) {
    const auto* const descriptor = reinterpret_cast<PyDescrObject*>(callable);
    return TypeName(descriptor->d_type) + "." + TextOf(descriptor->d_name);
  }
  return TypeName(type);
}

}  // namespace torchtrace
