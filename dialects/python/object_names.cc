#include "dialects/python/object_names.h"

namespace torchtrace {
namespace {

// A heap type's __module__ as the class statement stored it.
std::string ModuleOf(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__module__");
  PyObject* const module = type->tp_dict == nullptr ? nullptr : PyDict_GetItemWithError(type->tp_dict, name);
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

}  // namespace torchtrace
