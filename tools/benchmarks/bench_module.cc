// The Python module torchtrace_bench: turns tracing on and off within one
// process, so that traced and untraced runs can take turns, and offers the
// cheapest hooks that PyTorch's own protocols allow, to compare with. Also the
// numbers of a tensor, without a trace.
//
// The recorder and the hooks are those of the runtime library and of its
// module for torch, as `torchtrace run` loads them. One thread, with the
// GIL.

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <Python.h>
#include <c10/core/SafePyObject.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/python_variable.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dialects/torch/common/virtual_functions.h"
#include "dialects/torch/numbers/numbers.h"
#include "tracer/framework_dialect.h"
#include "tracer/launch/runtime_api.h"
#include "tracer/python/session.h"
#include "tracer/record/recorder.h"

namespace torchtrace {
namespace {

using c10::impl::TorchDispatchModeTLS;
using FunctionModeStack = at::impl::PythonTorchFunctionTLS;

PyObject* Fail(const std::string& message) {
  PyErr_SetString(PyExc_RuntimeError, message.c_str());
  return nullptr;
}

// ---- torchtrace's hooks ----

std::vector<std::unique_ptr<TracingHook>> g_hooks;
FrameworkDialect* g_dialect = nullptr;
RecordingOptions g_recording;  // Start's

// start(folder, options): records into `folder`. `options`: what ParseRecordingOptions takes. Installs no hook.
PyObject* Start(PyObject*, PyObject* args) {
  const char *folder, *recording_json;
  if (!PyArg_ParseTuple(args, "ss", &folder, &recording_json)) return nullptr;
  absl::StatusOr<RecordingOptions> recording = ParseRecordingOptions(recording_json);
  if (!recording.ok()) return Fail(std::string(recording.status().message()));
  torchtrace_runtime_register_dialects();
  g_dialect = FindDialect("torch");
  RecorderOptions options;
  options.log_folder = folder;
  options.recording = g_recording = *std::move(recording);
  options.make_stack = PythonStacksFor("torch");
  if (absl::Status status = Recorder::Start(options); !status.ok()) return Fail(std::string(status.message()));
  Py_RETURN_NONE;
}

// install(frames, level, ...): creates the hooks of these levels, as each session does. `frames` as in
// RecordingOptions, other options as Start got them.
PyObject* Install(PyObject*, PyObject* args) {
  RecordingOptions options = g_recording;
  const char* const frames = PyUnicode_AsUTF8(PyTuple_GET_ITEM(args, 0));
  if (frames == nullptr) return nullptr;
  options.frames = frames;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(args); ++i) {
    options.levels.push_back(static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(args, i))));
  }
  auto hooks = g_dialect->CreateHooks(Recorder::Get(), options);
  if (!hooks.ok()) return Fail(std::string(hooks.status().message()));
  g_hooks = g_dialect->CreateEarlyHooks(options);
  std::move(hooks->begin(), hooks->end(), std::back_inserter(g_hooks));
  for (const std::unique_ptr<TracingHook>& hook : g_hooks) {
    if (absl::Status status = hook->Install(); !status.ok()) return Fail(std::string(status.message()));
  }
  Py_RETURN_NONE;
}

// uninstall(): removes all hooks.
PyObject* Uninstall(PyObject*, PyObject*) {
  for (auto hook = g_hooks.rbegin(); hook != g_hooks.rend(); ++hook) {
    (*hook)->Uninstall();
    // A call of the hook may still be on the stack.
    static_cast<void>(hook->release());
  }
  g_hooks.clear();
  Py_RETURN_NONE;
}

// finish(): closes the log.
PyObject* Finish(PyObject*, PyObject*) {
  Recorder::Get()->Finish({});
  Py_RETURN_NONE;
}

// ---- Numbers of tensors ----

// read_numbers(tensor): computes the numbers of a tensor on the CPU.
PyObject* ReadNumbers(PyObject*, PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const std::optional<torch_dialect::ElementType> type =
      torch_dialect::ElementTypeOfNumber(static_cast<int64_t>(tensor.scalar_type()));
  if (!type.has_value()) return Fail("a tensor of this dtype has no numbers");
  return PyLong_FromUnsignedLongLong(
      torch_dialect::NumbersOf(*type, tensor.const_data_ptr(), tensor.sizes(), tensor.strides()).fingerprint);
}

// ---- An empty function mode ----

// __torch_function__(self, func, types, args=(), kwargs=None)
PyObject* CallFunction(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  static PyObject* const none = PyTuple_New(0);
  PyObject* args = count > 2 ? arguments[2] : none;
  PyObject* kwargs = count > 3 ? arguments[3] : nullptr;
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    const bool is_args = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "args") == 0;
    (is_args ? args : kwargs) = arguments[count + i];
  }
  return PyObject_Call(arguments[0], args, kwargs == Py_None ? nullptr : kwargs);
}

PyMethodDef g_mode_methods[] = {
    {"__torch_function__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(CallFunction)),
     METH_FASTCALL | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyTypeObject g_mode_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

// push_function_mode(): a mode that only calls the function.
PyObject* PushFunctionMode(PyObject*, PyObject*) {
  if (g_mode_type.tp_name == nullptr) {
    g_mode_type.tp_name = "torchtrace_bench.EmptyMode";
    g_mode_type.tp_basicsize = sizeof(PyObject);
    g_mode_type.tp_flags = Py_TPFLAGS_DEFAULT;
    g_mode_type.tp_methods = g_mode_methods;
    g_mode_type.tp_new = PyType_GenericNew;
    if (PyType_Ready(&g_mode_type) < 0) return nullptr;
  }
  PyObject* const mode = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&g_mode_type));
  if (mode == nullptr) return nullptr;
  FunctionModeStack::push_onto_stack(std::make_shared<c10::SafePyObject>(mode, getPyInterpreter()));
  Py_RETURN_NONE;
}

PyObject* PopFunctionMode(PyObject*, PyObject*) {
  FunctionModeStack::pop_stack();
  Py_RETURN_NONE;
}

// ---- An empty dispatch mode ----

using Table = c10::impl::PyInterpreterVTable;
torch_dialect::VirtualFunction<Table, void, const c10::OperatorHandle&, torch::jit::Stack*> g_dispatch = nullptr;
torch_dialect::VirtualFunction<Table, c10::intrusive_ptr<c10::TensorImpl>, const c10::TensorImpl*> g_detach = nullptr;

bool g_empty_mode = false;  // whether the mode on top is PushDispatchMode's

class WithoutMode {
 public:
  WithoutMode() : mode_(TorchDispatchModeTLS::pop_stack()) { g_empty_mode = false; }
  ~WithoutMode() {
    TorchDispatchModeTLS::push_non_infra_mode_onto_stack(std::move(mode_));
    g_empty_mode = true;
  }
  WithoutMode(const WithoutMode&) = delete;

 private:
  std::shared_ptr<c10::impl::PyObject_TorchDispatchMode> mode_;
};

// Pops the mode on top and calls the operator boxed.
void EmptyDispatch(const Table* table, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (!g_empty_mode) return g_dispatch(table, op, stack);
  const WithoutMode without;
  op.callBoxed(stack);
}

c10::intrusive_ptr<c10::TensorImpl> EmptyDetach(const Table* table, const c10::TensorImpl* self) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::detach", "");
  if (!g_empty_mode) return g_detach(table, self);
  torch::jit::Stack stack = {at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(const_cast<c10::TensorImpl*>(self)))};
  EmptyDispatch(table, op, &stack);
  return stack.front().toTensor().getIntrusivePtr();
}

// push_dispatch_mode(mode): pushes a TorchDispatchMode, whose calls never reach it.
PyObject* PushDispatchMode(PyObject*, PyObject* mode) {
  c10::impl::PyInterpreter* const interpreter = getPyInterpreter();
  static const bool replaced =
      torch_dialect::ReplaceVirtual(interpreter->vtable_, &Table::dispatch, EmptyDispatch, &g_dispatch) &&
      torch_dialect::ReplaceVirtual(interpreter->vtable_, &Table::detach, EmptyDetach, &g_detach);
  if (!replaced) return Fail("torch's table can't be written");
  TorchDispatchModeTLS::push_non_infra_mode_onto_stack(
      std::make_shared<c10::impl::PyObject_TorchDispatchMode>(Py_NewRef(mode), interpreter));
  g_empty_mode = true;
  Py_RETURN_NONE;
}

PyObject* PopDispatchMode(PyObject*, PyObject*) {
  g_empty_mode = false;
  TorchDispatchModeTLS::pop_stack();
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"start", Start, METH_VARARGS, nullptr},
    {"install", Install, METH_VARARGS, nullptr},
    {"uninstall", Uninstall, METH_NOARGS, nullptr},
    {"finish", Finish, METH_NOARGS, nullptr},
    {"read_numbers", ReadNumbers, METH_O, nullptr},
    {"push_function_mode", PushFunctionMode, METH_NOARGS, nullptr},
    {"pop_function_mode", PopFunctionMode, METH_NOARGS, nullptr},
    {"push_dispatch_mode", PushDispatchMode, METH_O, nullptr},
    {"pop_dispatch_mode", PopDispatchMode, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef g_module = {PyModuleDef_HEAD_INIT, "torchtrace_bench", nullptr, -1, g_functions};

}  // namespace
}  // namespace torchtrace

PyMODINIT_FUNC PyInit_torchtrace_bench() { return PyModule_Create(&torchtrace::g_module); }
