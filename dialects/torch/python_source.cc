#include "dialects/torch/python_source.h"

#include <cstring>
#include <string>

namespace torchtrace::torch_dialect {
namespace {

struct Source {
  const char* name;
  const char* text;
};

constexpr Source kSources[] = {
#include "dialects/torch/python_sources.inc"
};

}  // namespace

PyObject* LoadPythonSource(const char* name) {
  for (const Source& source : kSources) {
    if (std::strcmp(source.name, name) != 0) continue;
    const std::string full = std::string("torchtrace.") + name;
    PyObject* const module = PyModule_New(full.c_str());
    if (module == nullptr) return nullptr;
    PyObject* const globals = PyModule_GetDict(module);
    PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins());
    PyObject* const code = Py_CompileString(source.text, ("<" + full + ">").c_str(), Py_file_input);
    PyObject* const done = code == nullptr ? nullptr : PyEval_EvalCode(code, globals, globals);
    Py_XDECREF(code);
    if (done == nullptr) {
      Py_DECREF(module);
      return nullptr;
    }
    Py_DECREF(done);
    return module;
  }
  PyErr_Format(PyExc_ImportError, "torchtrace has no Python source '%s'", name);
  return nullptr;
}

}  // namespace torchtrace::torch_dialect
