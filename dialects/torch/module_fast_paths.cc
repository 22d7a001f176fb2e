#include "dialects/torch/module_fast_paths.h"

#include <string>
#include <string_view>

#include "dialects/torch/describe_python.h"
#include "tracer/python_patch.h"

namespace torchtrace::torch_dialect {
namespace {

const FunctionMode* g_mode = nullptr;
BuiltinPatch g_has_torch_function;
std::string* g_modules_folder = nullptr;

bool AskedByAModule() {
  PyFrameObject* const frame = PyEval_GetFrame();  // borrowed
  if (frame == nullptr) return false;
  PyCodeObject* const code = PyFrame_GetCode(frame);
  const bool result = PythonText(code->co_filename).kept().starts_with(*g_modules_folder);
  Py_DECREF(code);
  return result;
}

PyObject* HasTorchFunction(PyObject* self, PyObject* tensors) {
  const auto original = g_has_torch_function.original<PyCFunction>();
  PyObject* const answer = original(self, tensors);
  if (answer != Py_True || !g_mode->OnTop() || !AskedByAModule()) return answer;
  Py_DECREF(answer);
  const WithoutTopMode without;
  return original(self, tensors);
}

}  // namespace

absl::Status KeepModuleFastPaths(const FunctionMode* mode) {
  if (g_mode != nullptr) return absl::OkStatus();  // they were left as they are
  PyObject* const modules = PyImport_ImportModule("torch.nn.modules");
  PyObject* const file = modules == nullptr ? nullptr : PyObject_GetAttrString(modules, "__file__");
  const bool found = file != nullptr;
  if (found) {
    const std::string path = TextOf(file);
    delete g_modules_folder;
    g_modules_folder = new std::string(path.substr(0, path.rfind('/') + 1));
    g_mode = mode;
  }
  PyErr_Clear();
  Py_XDECREF(modules);
  Py_XDECREF(file);
  if (!found || !g_has_torch_function.Install("torch.overrides", "has_torch_function", METH_O,
                                              reinterpret_cast<void*>(HasTorchFunction))) {
    return absl::InternalError("torch.overrides.has_torch_function is not as expected");
  }
  return absl::OkStatus();
}

void RestoreModuleFastPaths() {
  g_has_torch_function.Restore();
  g_mode = nullptr;
}

}  // namespace torchtrace::torch_dialect
