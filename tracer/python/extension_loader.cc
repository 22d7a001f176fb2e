// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/extension_loader.h"

#include <Python.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace torchtrace {
namespace {

struct Waiting {
  std::function<bool()> before;
  int exit_code = 0;
};

// CPython's own main tells its audit hooks what it is about to run.
int OnAudit(const char* event, PyObject*, void* data) {
  auto* const waiting = static_cast<Waiting*>(data);
  constexpr char kRun[] = "cpython.run_";
  if (waiting->before == nullptr || std::strncmp(event, kRun, sizeof kRun - 1) != 0) return 0;
  if (std::exchange(waiting->before, nullptr)()) return 0;
  PyObject* const code = PyLong_FromLong(waiting->exit_code);
  PyErr_SetObject(PyExc_SystemExit, code);
  Py_XDECREF(code);
  return -1;
}

// The text of the Python error that is set.
std::string TakeError() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* const text = value == nullptr ? nullptr : PyObject_Str(value);
  const char* const utf8 = text == nullptr ? nullptr : PyUnicode_AsUTF8(text);
  const std::string message = utf8 == nullptr ? "it cannot be imported" : utf8;
  PyErr_Clear();
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return message;
}

}  // namespace

bool BeforeProgramStarts(std::function<bool()> before, int exit_code) {
  // Kept for ever: the interpreter never lets go of it.
  auto* const waiting = new Waiting{std::move(before), exit_code};
  return PySys_AddAuditHook(OnAudit, waiting) == 0;
}

absl::StatusOr<std::vector<int>> LoadExtension(const std::string& dialect) {
  PyObject* const module = PyImport_ImportModule("torchtrace._extension");
  PyObject* const loaded = module == nullptr ? nullptr : PyObject_CallMethod(module, "load", "s", dialect.c_str());
  Py_XDECREF(module);
  if (loaded == nullptr) return absl::InvalidArgumentError(TakeError());
  std::vector<int> levels;
  PyObject* const numbers = PyTuple_GetItem(loaded, 1);  // borrowed
  for (Py_ssize_t i = 0; numbers != nullptr && i < PyList_Size(numbers); ++i) {
    levels.push_back(static_cast<int>(PyLong_AsLong(PyList_GetItem(numbers, i))));
  }
  // It registers under the name of the class as it is defined.
  Py_DECREF(loaded);
  if (PyErr_Occurred() != nullptr) return absl::InvalidArgumentError(TakeError());
  return levels;
}

}  // namespace torchtrace
