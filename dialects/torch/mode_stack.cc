#include "dialects/torch/mode_stack.h"

#include "dialects/torch/describe_python.h"
#include "dialects/torch/hidden_frames.h"
#include "dialects/torch/thread_state.h"
#include "tracer/python_patch.h"

namespace torchtrace::torch_dialect {
namespace {

const FunctionMode* g_mode = nullptr;
BuiltinPatch g_length;
BuiltinPatch g_at;
BuiltinPatch g_enabled;
BuiltinPatch g_push;

constexpr char kGuardName[] = "add_torch_function_mode_stack_guard";
PyObject* g_guard_manager = nullptr;  // the class
PyObject* g_add_guard = nullptr;      // its own method

int64_t VisibleLength() { return FunctionMode::StackLength() - (g_mode->AtBottom() ? 1 : 0); }

PyObject* Length(PyObject*, PyObject*) { return PyLong_FromLongLong(VisibleLength()); }

PyObject* At(PyObject* self, PyObject* args, PyObject* kwargs) {
  const auto original = g_at.original<PyCFunctionWithKeywords>();
  if (!g_mode->AtBottom() || kwargs != nullptr || PyTuple_GET_SIZE(args) != 1) return original(self, args, kwargs);
  const long long index = PyLong_AsLongLong(PyTuple_GET_ITEM(args, 0));
  PyObject* const behind = index < 0 ? nullptr : Py_BuildValue("(L)", index + 1);
  if (behind == nullptr) {
    PyErr_Clear();
    return original(self, args, kwargs);  // says what is wrong with it
  }
  PyObject* const result = original(self, behind, nullptr);
  Py_DECREF(behind);
  return result;
}

// PyTorch's Python-implemented functions ask, and then hand their call to the mode.
bool AskedByHandler() {
  PyCodeObject* const code = CallingCode();  // borrowed
  return code != nullptr && TextIs(code->co_name, "handle_torch_function");
}

PyObject* Enabled(PyObject* self, PyObject* none) {
  PyObject* const answer = g_enabled.original<PyCFunction>()(self, none);
  if (answer != Py_True || VisibleLength() > 0 || AskedByHandler()) return answer;
  Py_DECREF(answer);
  Py_RETURN_FALSE;
}

// PyTorch's Python code takes a mode off a thread's stack and puts it back in a holder
// of its own, which needs the GIL when the thread ends. A daemon thread that ends with
// the interpreter can't have it any more, and the process would abort: the mode is put
// back in the holder that lives on.
PyObject* Push(PyObject* self, PyObject* mode) {
  if (!g_mode->Is(mode)) return g_push.original<PyCFunction>()(self, mode);
  g_mode->PushOnThisThread();
  Py_RETURN_NONE;
}

// The guard that Dynamo lets C++ check before each run of a compiled function counts
// all modes that are there, and Dynamo tries it at once. `args`: self, the modes, ...
PyObject* AddGuard(PyObject*, PyObject* args) {
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  if (count < 2 || !PyList_Check(PyTuple_GET_ITEM(args, 1)) || !t_state.suspended) {
    return PyObject_Call(g_add_guard, args, nullptr);
  }
  g_mode->PushUnderOthers();
  PyObject* const with_mode = PyTuple_New(count);
  if (with_mode == nullptr) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(with_mode, i, Py_NewRef(PyTuple_GET_ITEM(args, i)));
  PyObject* const modes = PyList_GetSlice(PyTuple_GET_ITEM(args, 1), 0, PY_SSIZE_T_MAX);
  const bool inserted = modes != nullptr && PyList_Insert(modes, 0, g_mode->object()) == 0;
  Py_XSETREF(reinterpret_cast<PyTupleObject*>(with_mode)->ob_item[1], modes);
  PyObject* const result = inserted ? PyObject_Call(g_add_guard, with_mode, nullptr) : nullptr;
  Py_DECREF(with_mode);
  return result;
}

PyMethodDef g_add_guard_definition = {kGuardName, AddGuard, METH_VARARGS, nullptr};

bool WrapGuard() {
  PyObject* const module = PyImport_ImportModule("torch._C._dynamo.guards");
  g_guard_manager = module == nullptr ? nullptr : PyObject_GetAttrString(module, "RootGuardManager");
  g_add_guard = g_guard_manager == nullptr ? nullptr : PyObject_GetAttrString(g_guard_manager, kGuardName);
  PyObject* const function = g_add_guard == nullptr ? nullptr : PyCFunction_New(&g_add_guard_definition, nullptr);
  PyObject* const method = function == nullptr ? nullptr : PyInstanceMethod_New(function);
  const bool done = method != nullptr && PyObject_SetAttrString(g_guard_manager, kGuardName, method) == 0;
  PyErr_Clear();
  Py_XDECREF(method);
  Py_XDECREF(function);
  Py_XDECREF(module);
  return done;
}

bool BeginCompiling() { return g_mode->RemoveFromThisThread(); }
void EndCompiling() { g_mode->PushUnderOthers(); }

}  // namespace

absl::Status HideMode(const FunctionMode* mode) {
  if (g_add_guard != nullptr) return absl::OkStatus();  // it was left hidden
  g_mode = mode;
  const auto install = [](BuiltinPatch* patch, const char* name, int flags, auto* function) {
    return patch->Install("torch._C", name, flags, reinterpret_cast<void*>(function));
  };
  if (!install(&g_length, "_len_torch_function_stack", METH_NOARGS, Length) ||
      !install(&g_at, "_get_function_stack_at", METH_VARARGS | METH_KEYWORDS, At) ||
      !install(&g_enabled, "_is_torch_function_mode_enabled", METH_NOARGS, Enabled) ||
      !install(&g_push, "_push_on_torch_function_stack", METH_O, Push) || !WrapGuard()) {
    ShowMode();
    return absl::InternalError("torch's stack of function modes is not as expected");
  }
  SetCompileHooks({BeginCompiling, EndCompiling});
  return absl::OkStatus();
}

void ShowMode() {
  SetCompileHooks({});
  if (g_add_guard != nullptr) PyObject_SetAttrString(g_guard_manager, kGuardName, g_add_guard);
  PyErr_Clear();
  Py_CLEAR(g_add_guard);
  Py_CLEAR(g_guard_manager);
  for (BuiltinPatch* patch : {&g_push, &g_enabled, &g_at, &g_length}) patch->Restore();
}

}  // namespace torchtrace::torch_dialect
