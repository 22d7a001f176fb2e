// Records one call of a Python-visible API (level 1) around its execution.

#ifndef TORCHTRACE_DIALECTS_TORCH_PYTHON_CALL_H_
#define TORCHTRACE_DIALECTS_TORCH_PYTHON_CALL_H_

#include <Python.h>

#include "dialects/torch/api_names.h"
#include "dialects/torch/describe_python.h"
#include "dialects/torch/thread_state.h"

namespace torchtrace::torch_dialect {

// The arguments as PyTorch's function protocol passes them. Borrowed.
struct PythonArguments {
  PyObject* self = nullptr;    // goes before args when not null
  PyObject* args = nullptr;    // a tuple, one object (`single`), or null
  PyObject* kwargs = nullptr;  // a dict or null
  bool single = false;         // args is the one argument itself
};

// True when the call was recorded and must be ended by EndCall. Keeps a Python
// error that is set.
inline bool BeginCall(const Api& api, const PythonArguments& arguments) {
  ThreadState& state = t_state;
  if (!state.Recording()) return false;
  ConfigBuilder* const config = state.config;
  config->Begin(api.head);
  const bool tuple = arguments.args != nullptr && !arguments.single;
  const Py_ssize_t count = tuple ? PyTuple_GET_SIZE(arguments.args) : arguments.args != nullptr;
  AppendVarint(static_cast<uint64_t>(count + (arguments.self != nullptr)), config->bytes());
  if (arguments.self != nullptr) DescribePython(arguments.self, config);
  for (Py_ssize_t i = 0; i < count; ++i) {
    DescribePython(tuple ? PyTuple_GET_ITEM(arguments.args, i) : arguments.args, config);
  }
  if (arguments.kwargs == nullptr || PyDict_GET_SIZE(arguments.kwargs) == 0) {
    AppendVarint(0, config->bytes());
  } else {
    AppendVarint(static_cast<uint64_t>(PyDict_GET_SIZE(arguments.kwargs)), config->bytes());
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(arguments.kwargs, &position, &name, &value)) {
      AppendString(PythonText(name).kept(), config->bytes());
      DescribePython(value, config);
    }
  }
  const std::string_view bytes = config->Finish();
  return state.recorder->Enter(bytes, config->identity_bytes());
}

// `result` as the call returned it: null means that a Python error is set.
inline void EndCall(PyObject* result) {
  if (t_state.recorder == nullptr) return;
  if (result != nullptr) {
    t_state.recorder->Leave();
  } else {
    PyObject* const type = PyErr_Occurred();
    t_state.recorder->Raise(type == nullptr ? "SystemError" : TypeName(reinterpret_cast<PyTypeObject*>(type)));
  }
}

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_PYTHON_CALL_H_
