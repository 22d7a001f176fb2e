// Runs Python statements and expressions in __main__ of a test's own process. The test calls Py_Initialize.

#ifndef TORCHTRACE_DIALECTS_PYTHON_TESTING_EMBEDDED_PYTHON_H_
#define TORCHTRACE_DIALECTS_PYTHON_TESTING_EMBEDDED_PYTHON_H_

#include <Python.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace torchtrace {

inline PyObject* RunInMain(const std::string& code, int start) {
  PyObject* const globals = PyModule_GetDict(PyImport_AddModule("__main__"));
  return PyRun_String(code.c_str(), start, globals, globals);
}

// Clears the error that is set, and returns it as text.
inline std::string ErrorText() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* const shown = PyObject_Str(value);
  std::string text = absl::StrCat(reinterpret_cast<PyTypeObject*>(type)->tp_name, ": ", PyUnicode_AsUTF8(shown));
  Py_XDECREF(shown);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return text;
}

// Returns "", or the exception that the code raised: "KeyError: 'no'".
inline std::string Execute(const std::string& code) {
  PyObject* const result = RunInMain(code, Py_file_input);
  if (result == nullptr) return ErrorText();
  Py_DECREF(result);
  return "";
}

// Returns a new reference; if the expression raises, fails the test and returns null.
inline PyObject* Evaluate(const std::string& expression) {
  PyObject* const value = RunInMain(expression, Py_eval_input);
  if (value == nullptr) ADD_FAILURE() << expression << ": " << ErrorText();
  return value;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_PYTHON_TESTING_EMBEDDED_PYTHON_H_
