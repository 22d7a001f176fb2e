#include "dialects/torch/torch_function_hook.h"

#include <atomic>
#include <cstring>

#include "dialects/python/call_through.h"
#include "dialects/torch/call_slots.h"
#include "dialects/torch/hidden_frames.h"
#include "dialects/torch/mode_stack.h"
#include "dialects/torch/module_fast_paths.h"
#include "dialects/torch/python_call.h"
#include "dialects/torch/python_source.h"
#include "dialects/torch/thread_state.h"

namespace torchtrace::torch_dialect {
namespace {

// One hook per process: Python calls back without a context.
FunctionMode* g_mode = nullptr;
ApiNames* g_names = nullptr;
bool g_include_getters = false;
vectorcallfunc g_python_body = nullptr;

PyObject* OverloadType() {
  PyObject* const module = PyImport_ImportModule("torch._ops");
  PyObject* const type = module == nullptr ? nullptr : PyObject_GetAttrString(module, "OpOverload");
  PyErr_Clear();
  Py_XDECREF(module);
  return type;
}

// What is called for `function`. An operator's object has a __call__ in Python that
// only calls its builtin; the program's call has come through it already, and a
// second time it would stand twice in a traceback. Borrowed.
PyObject* Callee(PyObject* function) {
  static PyObject* const overload = OverloadType();
  if (reinterpret_cast<PyObject*>(Py_TYPE(function)) != overload) return function;
  PyObject* const builtin = InstanceAttribute(function, "_op");
  return builtin == nullptr ? function : builtin;
}

// The property behind its accessor; any other function itself. Borrowed.
PyObject* Wrapped(PyObject* function) {
  if (Py_TYPE(function) != &_PyMethodWrapper_Type) return function;
  // A member of the C struct, which holds it.
  PyObject* const descriptor = PyObject_GetAttrString(function, "__self__");
  Py_XDECREF(descriptor);
  return descriptor;
}

// What the mode is told: records the call and makes it. PyTorch has taken the
// mode off before.
PyObject* RecordCall(PyObject* function, PyObject* args, PyObject* kwargs) {
  if (t_state.learning != nullptr) LearnCall(function, args, kwargs);
  bool recorded = false;
  // Before the call is recorded: its stack is the program's.
  HiddenCaller caller;
  if (t_state.Recording()) {
    const Api& api = g_names->Resolve(function);
    if (api.getter && !g_include_getters) {
      t_state.recorder->CountGetter();
    } else {
      recorded = BeginCall(api, {nullptr, args, kwargs});
    }
  }
  const python_dialect::PassOn pass_on(Wrapped(function));  // level 0 has seen the program's own call
  PyObject* const result = PyObject_Call(Callee(function), args, kwargs);
  if (result != nullptr) caller.Show();
  if (recorded) EndCall(result);
  return result;
}

// record(func, types, args, kwargs) of function_mode.py.
PyObject* Record(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 4 || !PyTuple_Check(arguments[2])) {
    PyErr_SetString(PyExc_TypeError, "record takes func, types, args and kwargs");
    return nullptr;
  }
  PyObject* const kwargs = PyDict_Check(arguments[3]) ? arguments[3] : nullptr;
  return RecordCall(arguments[0], arguments[2], kwargs);
}

PyMethodDef g_record = {"record", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(Record)), METH_FASTCALL,
                        nullptr};

// The vectorcall slot of the mode's __torch_function__, by which PyTorch's C++
// enters: (self, func, types[, args[, kwargs]]), the last ones maybe by name.
PyObject* EnterMode(PyObject* callable, PyObject* const* arguments, size_t flags, PyObject* names) {
  PyObject* parts[5] = {};  // self, func, types, args, kwargs
  const Py_ssize_t positional = PyVectorcall_NARGS(flags);
  bool understood = positional >= 3 && positional <= 5;
  for (Py_ssize_t i = 0; understood && i < positional; ++i) parts[i] = arguments[i];
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; understood && i < named; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(names, i);
    const int part = TextIs(name, "args") ? 3 : TextIs(name, "kwargs") ? 4 : 0;
    understood = part != 0 && parts[part] == nullptr;
    parts[part] = arguments[positional + i];
  }
  if (!understood || (parts[3] != nullptr && !PyTuple_Check(parts[3])) ||
      (parts[4] != nullptr && parts[4] != Py_None && !PyDict_Check(parts[4]))) {
    return g_python_body(callable, arguments, flags, names);
  }
  static PyObject* const no_arguments = PyTuple_New(0);
  PyObject* const args = parts[3] == nullptr ? no_arguments : parts[3];
  return RecordCall(parts[1], args, parts[4] == Py_None ? nullptr : parts[4]);
}

// Threads that have the mode, on their stack or in the hands of a call under way.
std::atomic<int> g_threads_with_mode{0};
struct ModeOnThread {
  ~ModeOnThread() { Set(false); }
  void Set(bool now) {
    if (there != now) g_threads_with_mode += now ? 1 : -1;
    there = now;
  }
  bool there = false;
};
thread_local ModeOnThread t_mode;

void ArmMode() {
  if (t_mode.there) return;
  t_mode.Set(true);
  g_mode->PushUnderOthers();
}

// Makes the mode's Python object and gives its function the native entry.
PyObject* MakeMode() {
  PyObject* const module = LoadPythonSource("function_mode");
  if (module == nullptr) return nullptr;
  PyObject* const record = PyCFunction_New(&g_record, nullptr);
  PyObject* const made = PyObject_CallMethod(module, "make_mode", "O", record);
  Py_XDECREF(record);
  Py_DECREF(module);
  if (made == nullptr) return nullptr;
  PyObject* const mode = Py_NewRef(PyTuple_GET_ITEM(made, 0));
  PyObject* const function = PyTuple_GET_ITEM(made, 1);
  g_python_body = reinterpret_cast<PyFunctionObject*>(function)->vectorcall;
  reinterpret_cast<PyFunctionObject*>(function)->vectorcall = EnterMode;
  HideFramesOf(function);
  Py_INCREF(function);
  Py_DECREF(made);
  return mode;
}

void HideHandler() {
  PyObject* const overrides = PyImport_ImportModule("torch.overrides");
  PyObject* const handler = overrides == nullptr ? nullptr : PyObject_GetAttrString(overrides, "handle_torch_function");
  if (handler != nullptr) HideFramesOf(handler);
  PyErr_Clear();
  Py_XDECREF(handler);
  Py_XDECREF(overrides);
}

}  // namespace

absl::Status TorchFunctionHook::Install() {
  if (g_mode == nullptr) {
    auto names = std::make_unique<ApiNames>();
    if (absl::Status status = names->Load(); !status.ok()) return status;
    PyObject* const mode = MakeMode();
    if (mode == nullptr) {
      PyErr_Clear();
      return absl::InternalError("cannot make a torch function mode");
    }
    g_names = names.release();
    g_mode = new FunctionMode(mode);
    HideHandler();
  }
  g_include_getters = include_getters_;
  if (absl::Status status = KeepModuleFastPaths(g_mode); !status.ok()) return status;
  if (absl::Status status = HideMode(g_mode); !status.ok()) {
    RestoreModuleFastPaths();
    return status;
  }
  InstallCallSlots({g_mode, g_names, include_getters_});
  AddThreadArmer(ArmMode);
  installed_ = true;
  return absl::OkStatus();
}

void TorchFunctionHook::Uninstall() {
  if (!installed_) return;
  installed_ = false;
  RemoveThreadArmer(ArmMode);
  UninstallCallSlots();
  if (g_mode->RemoveFromThisThread()) t_mode.Set(false);
  // On other threads it stays, and lets every call pass; so it must stay hidden too.
  if (g_threads_with_mode > 0) return;
  ShowMode();
  RestoreModuleFastPaths();
}

bool EarlierThreadsHook::IsNeeded() {
  PyThreadState* const first = PyInterpreterState_ThreadHead(PyInterpreterState_Main());
  return first != nullptr && PyThreadState_Next(first) != nullptr;
}

absl::Status EarlierThreadsHook::Install() {
  InstallCallSlots({});
  return absl::OkStatus();
}

void EarlierThreadsHook::Uninstall() { UninstallCallSlots(); }

}  // namespace torchtrace::torch_dialect
