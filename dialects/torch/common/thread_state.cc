#include "dialects/torch/common/thread_state.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tracer/python/python_patch.h"

namespace torchtrace::torch_dialect {

thread_local ThreadState t_state TORCHTRACE_STATIC_TLS;
uint64_t g_arming = 0;

namespace {

// Owns the thread's scratch. Its end is the end of recording on the thread:
// the ThreadRecorder, made just before it, is destroyed right after it.
struct Scratch {
  ~Scratch() {
    t_state.recorder = nullptr;
    ++t_state.compiling;
  }
  ConfigBuilder config;
};

std::vector<ArmThread>& Armers() {
  static auto* const armers = new std::vector<ArmThread>();
  return *armers;
}

// ---- Thread starts ----

// Stands for the function that a new thread is to run.
struct ThreadBody {
  PyObject_HEAD PyObject* function;
  vectorcallfunc vectorcall;
};

void ThreadBodyDealloc(PyObject* self) {
  Py_DECREF(reinterpret_cast<ThreadBody*>(self)->function);
  Py_TYPE(self)->tp_free(self);
}

// By vectorcall, which takes nothing of the thread's recursion limit.
PyObject* ThreadBodyCall(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  ArmThisThread();
  PyObject* const function = reinterpret_cast<ThreadBody*>(self)->function;
  PyObject* const result = PyObject_Vectorcall(function, args, count, names);
#if PY_VERSION_HEX < 0x030D0000
  // As Python does, which would name this object and not the function.
  if (result == nullptr && PyErr_ExceptionMatches(PyExc_SystemExit) == 0) {
    _PyErr_WriteUnraisableMsg("in thread started by", function);
    Py_RETURN_NONE;
  }
#endif
  return result;
}

// Of versions that name it.
PyObject* ThreadBodyRepr(PyObject* self) { return PyObject_Repr(reinterpret_cast<ThreadBody*>(self)->function); }

PyTypeObject g_thread_body_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

// Two names of one C function, each with a method definition of its own.
BuiltinPatch g_start_new_thread;
BuiltinPatch g_start_new;

PyObject* StartNewThread(PyObject* module, PyObject* args) {
  const auto original = g_start_new_thread.original<PyCFunction>();
  if (Armers().empty() || !PyTuple_Check(args) || PyTuple_GET_SIZE(args) < 2 ||
      !PyCallable_Check(PyTuple_GET_ITEM(args, 0))) {
    return original(module, args);
  }
  auto* const body = PyObject_New(ThreadBody, &g_thread_body_type);
  if (body == nullptr) return nullptr;
  body->function = Py_NewRef(PyTuple_GET_ITEM(args, 0));
  body->vectorcall = ThreadBodyCall;
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  PyObject* const with_body = PyTuple_New(count);
  if (with_body == nullptr) {
    Py_DECREF(body);
    return nullptr;
  }
  PyTuple_SET_ITEM(with_body, 0, reinterpret_cast<PyObject*>(body));
  for (Py_ssize_t i = 1; i < count; ++i) PyTuple_SET_ITEM(with_body, i, Py_NewRef(PyTuple_GET_ITEM(args, i)));
  PyObject* const result = original(module, with_body);
  Py_DECREF(with_body);
  return result;
}

// ---- Compile contexts ----

struct CompileContext {
  PyObject_HEAD PyObject* inner;  // PyTorch's context manager
};

void CompileContextDealloc(PyObject* self) {
  Py_DECREF(reinterpret_cast<CompileContext*>(self)->inner);
  Py_TYPE(self)->tp_free(self);
}

PyObject* CompileContextEnter(PyObject* self, PyObject*) {
  auto* const context = reinterpret_cast<CompileContext*>(self);
  ++t_state.compiling;
  NoteCompiledCode();
  PyObject* const result = PyObject_CallMethod(context->inner, "__enter__", nullptr);
  if (result == nullptr) --t_state.compiling;
  return result;
}

PyObject* CompileContextExit(PyObject* self, PyObject* args) {
  auto* const context = reinterpret_cast<CompileContext*>(self);
  PyObject* const exit = PyObject_GetAttrString(context->inner, "__exit__");
  PyObject* const result = exit == nullptr ? nullptr : PyObject_Call(exit, args, nullptr);
  Py_XDECREF(exit);
  --t_state.compiling;
  return result;
}

PyMethodDef g_compile_context_methods[] = {
    {"__enter__", CompileContextEnter, METH_NOARGS, nullptr},
    {"__exit__", CompileContextExit, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject g_compile_context_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyObject* InstallCallbacks(PyObject* maker, PyObject* args, PyObject* kwargs) {
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

PyMethodDef g_install_callbacks = {
    "install_callbacks",
    reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(InstallCallbacks)),
    METH_VARARGS | METH_KEYWORDS,
    nullptr,
};

}  // namespace

bool ThreadState::Attach() {
  recorder = Recorder::Get()->ThisThread();
  if (recorder == nullptr) return false;
  static thread_local Scratch scratch;
  config = &scratch.config;
  return true;
}

void AddThreadArmer(ArmThread arm) {
  Armers().push_back(arm);
  ++g_arming;
  ArmThisThread();
}

void RemoveThreadArmer(ArmThread arm) { std::erase(Armers(), arm); }

void ArmThisThread() {
  if (ThisThreadIsArmed()) return;
  t_state.armed = g_arming;
  for (const ArmThread arm : Armers()) arm();
}

void NoteCompiledCode() {
  Recorder::Get()->NoteNotSeen(
      "torch.compile: kernels that a backend fused are no calls of operators or APIs, and no level sees them");
}

bool WatchThreadStarts() {
  if (g_start_new_thread.original<void*>() != nullptr) return true;
  g_thread_body_type.tp_name = "torchtrace.ThreadBody";
  g_thread_body_type.tp_basicsize = sizeof(ThreadBody);
  g_thread_body_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  g_thread_body_type.tp_vectorcall_offset = offsetof(ThreadBody, vectorcall);
  g_thread_body_type.tp_dealloc = ThreadBodyDealloc;
  g_thread_body_type.tp_call = PyVectorcall_Call;
  g_thread_body_type.tp_repr = ThreadBodyRepr;
  if (PyType_Ready(&g_thread_body_type) < 0) return false;
  void* const start = reinterpret_cast<void*>(StartNewThread);
  g_start_new.Install("_thread", "start_new", METH_VARARGS, start);
  return g_start_new_thread.Install("_thread", "start_new_thread", METH_VARARGS, start);
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
  return PyCFunction_New(&g_install_callbacks, maker);
}

}  // namespace torchtrace::torch_dialect
