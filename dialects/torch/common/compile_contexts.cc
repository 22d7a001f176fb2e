#include "dialects/torch/common/compile_contexts.h"

#include <cstring>
#include <string>

#include "tracer/cpython/objects.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::torch_dialect {
namespace {

struct Source {
  const char* name;
  const char* text;
};

constexpr Source kSources[] = {
#include "dialects/torch/common/python_sources.inc"
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

namespace {

struct CompileContext {
  PyObject_HEAD PyObject* inner;  // PyTorch's context manager
};

void CompileContextDealloc(PyObject* self) {
  Py_DECREF(reinterpret_cast<CompileContext*>(self)->inner);
  Py_TYPE(self)->tp_free(self);
}

PyObject* CompileContextEnter(PyObject* self, PyObject*) {
  auto* const context = reinterpret_cast<CompileContext*>(self);
  ++t_thread.suspended;
  NoteCompiledCode();
  PyObject* const result = PyObject_CallMethod(context->inner, "__enter__", nullptr);
  if (result == nullptr) --t_thread.suspended;
  return result;
}

PyObject* CompileContextExit(PyObject* self, PyObject* args) {
  auto* const context = reinterpret_cast<CompileContext*>(self);
  PyObject* const exit = PyObject_GetAttrString(context->inner, "__exit__");
  PyObject* const result = exit == nullptr ? nullptr : PyObject_Call(exit, args, nullptr);
  Py_XDECREF(exit);
  --t_thread.suspended;
  return result;
}

PyMethodDef g_compile_context_methods[] = {
    {"__enter__", CompileContextEnter, METH_NOARGS, nullptr},
    {"__exit__", CompileContextExit, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject g_compile_context_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyObject* MakeContext(PyObject* maker, PyObject* args, PyObject* kwargs) {
  PyObject* const inner = PyObject_Call(maker, args, kwargs);
  if (inner == nullptr) return nullptr;
  auto* const context = PyObject_New(CompileContext, &g_compile_context_type);
  if (context == nullptr) {
    Py_DECREF(inner);
    return nullptr;
  }
  context->inner = inner;
  return reinterpret_cast<PyObject*>(context);
}

PyMethodDef g_make_context = {
    "compile_context",
    reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(MakeContext)),
    METH_VARARGS | METH_KEYWORDS,
    nullptr,
};

}  // namespace

void NoteCompiledCode() {
  Recorder::Get()->NoteNotSeen("torch.compile: kernels that a backend fused, which are not calls of operators or APIs");
}

PyObject* WrapCompileContext(PyObject* maker) {
  if (g_compile_context_type.tp_name == nullptr) {
    g_compile_context_type.tp_name = "torchtrace.CompileContext";
    g_compile_context_type.tp_basicsize = sizeof(CompileContext);
    g_compile_context_type.tp_flags = Py_TPFLAGS_DEFAULT;
    g_compile_context_type.tp_dealloc = CompileContextDealloc;
    g_compile_context_type.tp_methods = g_compile_context_methods;
    if (PyType_Ready(&g_compile_context_type) < 0) return nullptr;
  }
  return PyCFunction_New(&g_make_context, maker);
}

}  // namespace torchtrace::torch_dialect
