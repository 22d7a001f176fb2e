// Records one call of a Python-visible API (levels 0 and 1) around its execution. Needs the GIL, and
// keeps a Python error that is set.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_PYTHON_CALL_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_PYTHON_CALL_H_

#include <Python.h>

#include <string_view>

#include "dialects/python/describe/describe_call.h"
#include "dialects/torch/common/thread_state.h"
#include "dialects/torch/describe/describe_python.h"

namespace torchtrace::torch_dialect {

// `describe(config)` returns the call's bytes. True when the call was recorded and must be ended by
// EndCall.
template <typename Describe>
bool BeginDescribedCall(Describe&& describe) {
  ThreadState& state = t_state;
  if (!state.Recording()) return false;
  std::string_view bytes;
  return state.DescribeBy([&] { bytes = describe(state.config); }) &&
         state.recorder->Enter(bytes, state.config->identity_bytes());
}

// `head`: level and API (ConfigBuilder::EncodeHead).
inline bool BeginCall(std::string_view head, const python_dialect::CallArguments& arguments) {
  return BeginDescribedCall([&](ConfigBuilder* config) {
    return python_dialect::DescribeCall(head, arguments, config,
                                        [config](PyObject* value) { DescribePython(value, config); });
  });
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

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_PYTHON_CALL_H_
