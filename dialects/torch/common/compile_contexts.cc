#include "dialects/torch/common/compile_contexts.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "dialects/python/describe/object_names.h"
#include "dialects/torch/common/compiled_graphs.h"
#include "dialects/torch/describe/tensor_numbers.h"
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

// A new module of the file.
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
  static auto* const modules = new std::map<std::string, PyObject*>();
  const Unwatched unwatched;
  PyObject*& module = (*modules)[name];
  if (module == nullptr) module = Load(name);
  PyObject* const callable = module == nullptr ? nullptr : PyObject_GetAttrString(module, function);
  PyObject* const result = callable == nullptr ? nullptr : PyObject_Call(callable, args, nullptr);
  Py_XDECREF(callable);
  return result;
}

namespace {

struct CompileContext {
  PyObject_HEAD PyObject* inner;  // PyTorch's context manager
  PyObject* compiled;             // its argument if it begins a compilation; null: it is within another, or none
  bool backward;
  Compilation* compilation;  // under way; owned
};

void EndCompilation(CompileContext* context, PyObject* exception) {
  const std::unique_ptr<Compilation> compilation(std::exchange(context->compilation, nullptr));
  if (compilation != nullptr) compilation->End(exception);
}

void CompileContextDealloc(PyObject* self) {
  auto* const context = reinterpret_cast<CompileContext*>(self);
  Py_DECREF(context->inner);
  Py_XDECREF(context->compiled);
  delete context->compilation;
  Py_TYPE(self)->tp_free(self);
}

PyObject* CompileContextEnter(PyObject* self, PyObject*) {
  auto* const context = reinterpret_cast<CompileContext*>(self);
  NoteCompiledCode();
  if (context->compiled != nullptr && context->compilation == nullptr) {
    context->compilation = Compilation::Begin(context->compiled, context->backward).release();
  }
  ++t_thread.suspended;
  PyObject* const result = PyObject_CallMethod(context->inner, "__enter__", nullptr);
  if (result == nullptr) {
    --t_thread.suspended;
    EndCompilation(context, PyErr_Occurred());
  }
  return result;
}

PyObject* CompileContextExit(PyObject* self, PyObject* args) {
  auto* const context = reinterpret_cast<CompileContext*>(self);
  PyObject* const exit = PyObject_GetAttrString(context->inner, "__exit__");
  PyObject* const result = exit == nullptr ? nullptr : PyObject_Call(exit, args, nullptr);
  Py_XDECREF(exit);
  --t_thread.suspended;
  PyObject* const raised = PyTuple_GET_SIZE(args) == 0 ? Py_None : PyTuple_GET_ITEM(args, 0);
  EndCompilation(context, result == nullptr ? PyErr_Occurred() : raised == Py_None ? nullptr : raised);
  return result;
}

PyMethodDef g_compile_context_methods[] = {
    {"__enter__", CompileContextEnter, METH_NOARGS, nullptr},
    {"__exit__", CompileContextExit, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject g_compile_context_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

// What a method begins that makes a function for a backward graph from a cache.
constexpr char kLoad[] = "backward load";

// `of`: the function that `wrap` was given, and what a call of it begins.
PyObject* MakeContext(PyObject* of, PyObject* args, PyObject* kwargs) {
  PyObject* const inner = PyObject_Call(PyTuple_GET_ITEM(of, 0), args, kwargs);
  if (inner == nullptr) return nullptr;
  const std::string begins = TextOf(PyTuple_GET_ITEM(of, 1));
  if (begins == "backward run" || begins == kLoad) {
    if (begins == kLoad || MakesBackwardGraph()) WatchBackwardRuns(inner);
    return inner;
  }
  auto* const context = PyObject_New(CompileContext, &g_compile_context_type);
  if (context == nullptr) {
    Py_DECREF(inner);
    return nullptr;
  }
  context->inner = inner;
  const bool compiles = !begins.empty() && PyTuple_GET_SIZE(args) == 1;
  context->compiled = compiles ? Py_NewRef(PyTuple_GET_ITEM(args, 0)) : nullptr;
  context->backward = begins == "backward";
  context->compilation = nullptr;
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
  g_kernels_are_fused.store(true, std::memory_order_relaxed);
  Recorder::Get()->NoteNotSeen("torch.compile: kernels that a backend fused, which are not calls of operators or APIs");
}

PyObject* WrapForCompiling(PyObject* of) {
  if (g_compile_context_type.tp_name == nullptr) {
    g_compile_context_type.tp_name = "torchtrace.CompileContext";
    g_compile_context_type.tp_basicsize = sizeof(CompileContext);
    g_compile_context_type.tp_flags = Py_TPFLAGS_DEFAULT;
    g_compile_context_type.tp_dealloc = CompileContextDealloc;
    g_compile_context_type.tp_methods = g_compile_context_methods;
    if (PyType_Ready(&g_compile_context_type) < 0) return nullptr;
  }
  const std::string begins = TextOf(PyTuple_GET_ITEM(of, 1));
  if (begins == "package run" || begins == "library load") {
    PyObject* const function = PyTuple_GET_ITEM(of, 0);
    begins == "package run" ? WatchPackageRuns(function) : WatchLibraryLoads(function);
    Py_RETURN_NONE;
  }
  PyObject* const wrapper = PyCFunction_New(&g_make_context, of);
  if (wrapper == nullptr || begins != kLoad) return wrapper;
  PyObject* const method = PyInstanceMethod_New(wrapper);
  Py_DECREF(wrapper);
  return method;
}

}  // namespace torchtrace::torch_dialect
