#include "dialects/python/setattr/hidden_types.h"

#include <algorithm>
#include <vector>

#include "tracer/cpython/objects.h"

namespace torchtrace::python_dialect {
namespace {

std::vector<void (*)(PyTypeObject*)>& Watchers() {
  static auto* const watchers = new std::vector<void (*)(PyTypeObject*)>;
  return *watchers;
}

PyCFunction g_init_subclass = nullptr;

// Whether a base is hidden from reading.
bool InheritsFromHidden(const PyTypeObject* type) {
  PyObject* const order = type->tp_mro;
  for (Py_ssize_t i = 1; order != nullptr && i < PyTuple_GET_SIZE(order); ++i) {
    if (reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order, i))->tp_getattro == GetAsUsual) return true;
  }
  return false;
}

// object.__init_subclass__, which `type` calls as its last action for a new type, through those of the bases.
PyObject* InitSubclass(PyObject* type, PyObject* arguments) {
  PyObject* const result = g_init_subclass(type, arguments);
  if (result != nullptr && PyType_Check(type)) {
    auto* const type_object = reinterpret_cast<PyTypeObject*>(type);
    if (InheritsFromHidden(type_object)) HideReading(type_object);
    for (auto* const made : Watchers()) made(type_object);
  }
  return result;
}

}  // namespace

void HideMaking(PyTypeObject* type) {
  if (!IsMadeUnasked(type)) return;
  type->tp_alloc = AllocateAsUsual;
  PyType_Modified(type);
}

void HideReading(PyTypeObject* type) {
  if (!IsReadUnasked(type)) return;
  type->tp_getattro = GetAsUsual;
  PyType_Modified(type);
}

void ForEachSubclass(PyTypeObject* type, absl::FunctionRef<void(PyTypeObject*)> visit) {
  visit(type);
  // type's own method, as a metaclass may define another.
  PyObject* const method = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__");
  PyObject* const types = method == nullptr ? nullptr : PyObject_CallOneArg(method, reinterpret_cast<PyObject*>(type));
  PyErr_Clear();
  for (Py_ssize_t i = 0; types != nullptr && i < PyList_GET_SIZE(types); ++i) {
    ForEachSubclass(reinterpret_cast<PyTypeObject*>(PyList_GET_ITEM(types, i)), visit);
  }
  Py_XDECREF(types);
  Py_XDECREF(method);
}

void WatchNewTypes(void (*made)(PyTypeObject* type)) {
  std::vector<void (*)(PyTypeObject*)>& watchers = Watchers();
  if (std::find(watchers.begin(), watchers.end(), made) != watchers.end()) return;
  watchers.push_back(made);
  if (g_init_subclass != nullptr) return;
  PyObject* const dict = DictOf(&PyBaseObject_Type);
  PyObject* const method = dict == nullptr ? nullptr : PyDict_GetItemString(dict, "__init_subclass__");
  if (method == nullptr || Py_TYPE(method) != &PyClassMethodDescr_Type) return;
  PyMethodDef* const definition = reinterpret_cast<PyMethodDescrObject*>(method)->d_method;
  if (definition->ml_flags != (METH_NOARGS | METH_CLASS)) return;
  g_init_subclass = definition->ml_meth;
  definition->ml_meth = InitSubclass;
}

}  // namespace torchtrace::python_dialect
