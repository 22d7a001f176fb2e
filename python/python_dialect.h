// A dialect that is written in Python: python/torchtrace/_extension.py, which guards what
// it calls of the user's. Needs the GIL.

#ifndef TORCHTRACE_PYTHON_PYTHON_DIALECT_H_
#define TORCHTRACE_PYTHON_PYTHON_DIALECT_H_

#include <Python.h>

namespace torchtrace {

// register_dialect(name, package, levels, extension): makes it known under this name, in
// place of one that was registered under it before.
PyObject* RegisterPythonDialect(PyObject* self, PyObject* args);

}  // namespace torchtrace

#endif  // TORCHTRACE_PYTHON_PYTHON_DIALECT_H_
