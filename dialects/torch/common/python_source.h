// The dialect's own Python files, compiled into the library: a traced program
// needs nothing installed. Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_PYTHON_SOURCE_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_PYTHON_SOURCE_H_

#include <Python.h>

namespace torchtrace::torch_dialect {

// Runs dialects/torch/<name>.py as a new module that is not in sys.modules, and calls its function,
// unseen by sys.settrace and sys.setprofile. Null with a Python error set.
PyObject* CallPythonSource(const char* name, const char* function, PyObject* args);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_PYTHON_SOURCE_H_
