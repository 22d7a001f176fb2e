// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/python_patch.h"

#include <Python.h>

#include "tracer/python/writable_memory.h"

namespace torchtrace {

PyObject* ImportedModule(const char* name) { return PyDict_GetItemString(PyImport_GetModuleDict(), name); }

bool BuiltinPatch::Install(const char* module, const char* name, int flags, void* function) {
  if (PyObject* const known = ImportedModule(module)) return Install(known, name, flags, function);
  PyObject* const owner = PyImport_ImportModule(module);
  const bool installed = owner != nullptr && Install(owner, name, flags, function);
  Py_XDECREF(owner);
  // A module that only we imported is not the program's to see.
  if (PyDict_DelItemString(PyImport_GetModuleDict(), module) != 0) PyErr_Clear();
  PyErr_Clear();
  return installed;
}

bool BuiltinPatch::Install(PyObject* module, const char* name, int flags, void* function) {
  PyObject* const found = PyObject_GetAttrString(module, name);
  PyErr_Clear();
  const bool fits = found != nullptr && PyCFunction_CheckExact(found) && PyCFunction_GET_FLAGS(found) == flags &&
                    IsWritable(&reinterpret_cast<PyCFunctionObject*>(found)->m_ml->ml_meth);
  if (fits) {
    // The definition is the module's static table: it outlives the object.
    definition_ = reinterpret_cast<PyCFunctionObject*>(found)->m_ml;
    original_ = reinterpret_cast<void*>(definition_->ml_meth);
    definition_->ml_meth = reinterpret_cast<PyCFunction>(function);
  }
  Py_XDECREF(found);
  return fits;
}

void BuiltinPatch::Restore() {
  if (definition_ != nullptr) definition_->ml_meth = reinterpret_cast<PyCFunction>(original_);
  definition_ = nullptr;
}

}  // namespace torchtrace
