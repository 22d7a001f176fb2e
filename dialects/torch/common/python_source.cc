#include "dialects/torch/common/python_source.h"

#include <cstring>
#include <string>

namespace torchtrace::torch_dialect {
namespace {

struct Source {
  const char* name;
  const char* text;
};

constexpr Source kSources[] = {
#include "dialects/torch/common/python_sources.inc"
};

// The thread's tracing and profiling functions are the program's, and not told meanwhile.
class Unwatched {
 public:
#if PY_VERSION_HEX >= 0x030B0000
  Unwatched() { PyThreadState_EnterTracing(PyThreadState_Get()); }
  ~Unwatched() { PyThreadState_LeaveTracing(PyThreadState_Get()); }
#else
  Unwatched() {}
#endif
  Unwatched(const Unwatched&) = delete;
};

PyObject* Load(const char* name) {
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

}  // namespace

PyObject* CallPythonSource(const char* name, const char* function, PyObject* args) {
  const Unwatched unwatched;
  PyObject* const module = Load(name);
  PyObject* const callable = module == nullptr ? nullptr : PyObject_GetAttrString(module, function);
  PyObject* const result = callable == nullptr ? nullptr : PyObject_Call(callable, args, nullptr);
  Py_XDECREF(callable);
  Py_XDECREF(module);
  return result;
}

}  // namespace torchtrace::torch_dialect
