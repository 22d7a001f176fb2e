// Running Python in a test's own process: statements and expressions in __main__. Py_Initialize is the test's.

#ifndef TORCHTRACE_DIALECTS_PYTHON_TESTING_EMBEDDED_PYTHON_H_
#define TORCHTRACE_DIALECTS_PYTHON_TESTING_EMBEDDED_PYTHON_H_

#include <Python.h>

#include <string>

namespace torchtrace {

// "" or the exception that ended them: "KeyError: 'no'".
std::string Execute(const std::string& code);

// A new reference; a failure of the test, and null, where it raises.
PyObject* Evaluate(const std::string& expression);

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_PYTHON_TESTING_EMBEDDED_PYTHON_H_
