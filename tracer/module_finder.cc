// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/module_finder.h"

#include <Python.h>
#include <dlfcn.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace torchtrace {
namespace {

// The package's folder. It lies beside the runtime library, or, in an installed
// package, around it: torchtrace/runtime/<pair>/libtorchtrace_runtime.so.
std::string PackageFolder() {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&OfferPythonModule), &self) == 0) return "";
  const std::string library(self.dli_fname);
  const std::string folder = library.substr(0, library.rfind('/'));
  const std::string beside = absl::StrCat(folder, "/torchtrace");
  const std::string runtimes = folder.substr(0, folder.rfind('/'));
  const std::string around = runtimes.substr(0, runtimes.rfind('/'));
  for (const std::string& candidate : {beside, around}) {
    if (access(absl::StrCat(candidate, "/__init__.py").c_str(), R_OK) == 0) return candidate;
  }
  return "";
}

// find_spec(self, name, path=None, target=None)
PyObject* FindSpec(PyObject*, PyObject* args, PyObject* kwargs) {
  PyObject *name, *path = Py_None, *target = Py_None;
  static const char* const kNames[] = {"name", "path", "target", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO", const_cast<char**>(kNames), &name, &path, &target)) {
    return nullptr;
  }
  if (!PyUnicode_Check(name) || PyUnicode_CompareWithASCIIString(name, "torchtrace") != 0) Py_RETURN_NONE;
  const std::string folder = PackageFolder();
  PyObject* const util = folder.empty() ? nullptr : PyImport_ImportModule("importlib.util");
  if (folder.empty()) Py_RETURN_NONE;
  if (util == nullptr) return nullptr;
  PyObject* const make = PyObject_GetAttrString(util, "spec_from_file_location");
  Py_DECREF(util);
  if (make == nullptr) return nullptr;
  PyObject* const positional = Py_BuildValue("(Os)", name, absl::StrCat(folder, "/__init__.py").c_str());
  PyObject* const named = Py_BuildValue("{s:[s]}", "submodule_search_locations", folder.c_str());
  PyObject* const spec =
      positional == nullptr || named == nullptr ? nullptr : PyObject_Call(make, positional, named);
  Py_XDECREF(named);
  Py_XDECREF(positional);
  Py_DECREF(make);
  return spec;
}

PyMethodDef g_methods[] = {
    {"find_spec", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(FindSpec)), METH_VARARGS | METH_KEYWORDS,
     nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyTypeObject g_finder_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

void OfferPythonModule() {
  if (PackageFolder().empty()) return;
  if (g_finder_type.tp_name == nullptr) {
    g_finder_type.tp_name = "torchtrace.ModuleFinder";
    g_finder_type.tp_basicsize = sizeof(PyObject);
    g_finder_type.tp_flags = Py_TPFLAGS_DEFAULT;
    g_finder_type.tp_methods = g_methods;
  }
  PyObject* const finders = PySys_GetObject("meta_path");  // borrowed
  PyObject* finder = nullptr;
  if (finders != nullptr && PyList_Check(finders) && PyType_Ready(&g_finder_type) == 0) {
    finder = PyObject_New(PyObject, &g_finder_type);
  }
  if (finder != nullptr) PyList_Append(finders, finder);
  Py_XDECREF(finder);
  PyErr_Clear();
}

}  // namespace torchtrace
