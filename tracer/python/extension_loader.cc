// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/extension_loader.h"

#include <Python.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace torchtrace {
namespace {

// The package's folder. It is next to the runtime library, or, in an installed package, contains it:
// torchtrace/runtime/<pair>/libtorchtrace_runtime.so.
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

PyObject* g_original = nullptr;  // PathFinder.find_spec, bound to its class

PyObject* SpecOfPackage(PyObject* name, const std::string& folder) {
  PyObject* const util = PyImport_ImportModule("importlib.util");
  PyObject* const make = util == nullptr ? nullptr : PyObject_GetAttrString(util, "spec_from_file_location");
  Py_XDECREF(util);
  if (make == nullptr) return nullptr;
  PyObject* const positional = Py_BuildValue("(Os)", name, absl::StrCat(folder, "/__init__.py").c_str());
  PyObject* const named = Py_BuildValue("{s:[s]}", "submodule_search_locations", folder.c_str());
  PyObject* const spec = positional == nullptr || named == nullptr ? nullptr : PyObject_Call(make, positional, named);
  Py_XDECREF(named);
  Py_XDECREF(positional);
  Py_DECREF(make);
  return spec;
}

// PathFinder.find_spec(name, path=None, target=None)
PyObject* FindSpec(PyObject*, PyObject* args, PyObject* kwargs) {
  PyObject* const found = PyObject_Call(g_original, args, kwargs);
  if (found != Py_None || PyTuple_GET_SIZE(args) == 0) return found;
  PyObject* const name = PyTuple_GET_ITEM(args, 0);
  if (!PyUnicode_Check(name) || PyUnicode_CompareWithASCIIString(name, "torchtrace") != 0) return found;
  const std::string folder = PackageFolder();
  if (folder.empty()) return found;
  Py_DECREF(found);
  return SpecOfPackage(name, folder);
}

PyMethodDef g_find_spec = {"find_spec", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(FindSpec)),
                           METH_VARARGS | METH_KEYWORDS, nullptr};

}  // namespace

void OfferPythonModule() {
  if (PackageFolder().empty()) return;
  PyObject* const external = PyImport_ImportModule("_frozen_importlib_external");
  PyObject* const finder = external == nullptr ? nullptr : PyObject_GetAttrString(external, "PathFinder");
  Py_XDECREF(external);
  g_original = finder == nullptr ? nullptr : PyObject_GetAttrString(finder, "find_spec");
  // Unlike a Python function, a builtin in a class is not bound to it.
  PyObject* const ours = g_original == nullptr ? nullptr : PyCFunction_New(&g_find_spec, nullptr);
  if (ours != nullptr) PyObject_SetAttrString(finder, "find_spec", ours);
  PyErr_Clear();
  Py_XDECREF(ours);
  Py_XDECREF(finder);
}

namespace {

struct Waiting {
  std::function<bool()> before;
  int exit_code = 0;
};

// CPython's own main raises an audit event before it runs the program.
int OnAudit(const char* event, PyObject*, void* data) {
  auto* const waiting = static_cast<Waiting*>(data);
  constexpr char kRun[] = "cpython.run_";
  if (waiting->before == nullptr || std::strncmp(event, kRun, sizeof kRun - 1) != 0) return 0;
  if (std::exchange(waiting->before, nullptr)()) return 0;
  PyObject* const code = PyLong_FromLong(waiting->exit_code);
  PyErr_SetObject(PyExc_SystemExit, code);
  Py_XDECREF(code);
  return -1;
}

// Clears the Python error that is set, and returns its text.
std::string TakeError() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* const text = value == nullptr ? nullptr : PyObject_Str(value);
  const char* const utf8 = text == nullptr ? nullptr : PyUnicode_AsUTF8(text);
  const std::string message = utf8 == nullptr ? "it cannot be imported" : utf8;
  PyErr_Clear();
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return message;
}

}  // namespace

bool BeforeProgramStarts(std::function<bool()> before, int exit_code) {
  // Never freed: the audit hook can't be removed.
  auto* const waiting = new Waiting{std::move(before), exit_code};
  return PySys_AddAuditHook(OnAudit, waiting) == 0;
}

absl::StatusOr<std::vector<int>> LoadExtension(const std::string& dialect) {
  PyObject* const module = PyImport_ImportModule("torchtrace._extension");
  PyObject* const loaded = module == nullptr ? nullptr : PyObject_CallMethod(module, "load", "s", dialect.c_str());
  Py_XDECREF(module);
  if (loaded == nullptr) return absl::InvalidArgumentError(TakeError());
  std::vector<int> levels;
  PyObject* const numbers = PyTuple_GetItem(loaded, 1);  // borrowed
  for (Py_ssize_t i = 0; numbers != nullptr && i < PyList_Size(numbers); ++i) {
    levels.push_back(static_cast<int>(PyLong_AsLong(PyList_GetItem(numbers, i))));
  }
  // The dialect registers under the name of the class as it is defined.
  Py_DECREF(loaded);
  if (PyErr_Occurred() != nullptr) return absl::InvalidArgumentError(TakeError());
  return levels;
}

}  // namespace torchtrace
