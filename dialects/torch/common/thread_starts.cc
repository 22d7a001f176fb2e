#include "dialects/torch/common/thread_starts.h"

#include <Python.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "tracer/cpython/objects.h"
#include "tracer/python/python_patch.h"
#include "tracer/python/thread_names.h"
#include "tracer/record/recorder.h"

namespace torchtrace::torch_dialect {

constinit thread_local uint64_t t_armed TORCHTRACE_STATIC_TLS = 0;
uint64_t g_arming = 0;

constinit thread_local bool t_starts_thread TORCHTRACE_STATIC_TLS = false;

namespace {

std::vector<ArmThread>& Armers() {
  static auto* const armers = new std::vector<ArmThread>();
  return *armers;
}

// Wraps the function that a new thread is to run.
struct ThreadBody {
  PyObject_HEAD PyObject* function;
  vectorcallfunc vectorcall;
};

void ThreadBodyDealloc(PyObject* self) {
  Py_DECREF(reinterpret_cast<ThreadBody*>(self)->function);
  Py_TYPE(self)->tp_free(self);
}

// A vectorcall doesn't count against the thread's recursion limit.
PyObject* ThreadBodyCall(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  ArmThisThread();
  PyObject* const function = reinterpret_cast<ThreadBody*>(self)->function;
  KeepThreadName(function);
  PyObject* const result = PyObject_Vectorcall(function, args, count, names);
  KeepThreadName(function);  // it may have changed
  TellThreadName();
  // Python would do the same, but name this object instead of the function.
  if (kTellsRaisedInThread && result == nullptr && PyErr_ExceptionMatches(PyExc_SystemExit) == 0) {
    TellRaisedInThread(function);
    Py_RETURN_NONE;
  }
  return result;
}

// Python 3.13 and later print it where an exception ends the thread.
PyObject* ThreadBodyRepr(PyObject* self) { return PyObject_Repr(reinterpret_cast<ThreadBody*>(self)->function); }

PyTypeObject g_thread_body_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

// Two names of one C function; each has its own method definition.
BuiltinPatch g_start_new_thread;
BuiltinPatch g_start_new;

// threading starts threads with it from 3.13 on; earlier versions lack it.
BuiltinPatch g_start_joinable_thread;

// The arguments with the first one, the function, wrapped in a ThreadBody; the arguments unchanged if it is none. A new
// reference; null with an error set.
PyObject* WithBody(PyObject* args) {
  // Even if no level arms the thread, its name is recorded.
  const bool wanted = !Armers().empty() || Recorder::SessionIsOn();
  if (!wanted || !PyTuple_Check(args) || PyTuple_GET_SIZE(args) < 1 || !PyCallable_Check(PyTuple_GET_ITEM(args, 0))) {
    return Py_NewRef(args);
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
  return with_body;
}

// `start(args)` is Python's own function.
template <typename Start>
PyObject* StartWithBody(PyObject* args, Start start) {
  PyObject* const with_body = WithBody(args);
  if (with_body == nullptr) return nullptr;
  const bool outer = std::exchange(t_starts_thread, true);  // an audit hook may start a thread here
  PyObject* const result = start(with_body);
  t_starts_thread = outer;
  Py_DECREF(with_body);
  return result;
}

PyObject* StartNewThread(PyObject* module, PyObject* args) {
  return StartWithBody(
      args, [module](PyObject* with_body) { return g_start_new_thread.original<PyCFunction>()(module, with_body); });
}

PyObject* StartJoinableThread(PyObject* module, PyObject* args, PyObject* kwargs) {
  return StartWithBody(args, [=](PyObject* with_body) {
    return g_start_joinable_thread.original<PyCFunctionWithKeywords>()(module, with_body, kwargs);
  });
}

}  // namespace

void AddThreadArmer(ArmThread arm) {
  Armers().push_back(arm);
  ++g_arming;
  ArmThisThread();
}

void RemoveThreadArmer(ArmThread arm) { std::erase(Armers(), arm); }

bool StartsPythonThread() { return t_starts_thread; }

void ArmThisThread() {
  if (ThisThreadIsArmed()) return;
  t_armed = g_arming;
  KeepThreadName(nullptr);
  for (const ArmThread arm : Armers()) arm();
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
  g_start_joinable_thread.Install("_thread", "start_joinable_thread", METH_VARARGS | METH_KEYWORDS,
                                  reinterpret_cast<void*>(StartJoinableThread));
  void* const start = reinterpret_cast<void*>(StartNewThread);
  g_start_new.Install("_thread", "start_new", METH_VARARGS, start);
  return g_start_new_thread.Install("_thread", "start_new_thread", METH_VARARGS, start);
}

}  // namespace torchtrace::torch_dialect
