// What the native module offers to Python: dialects written in Python, the calls that they record, and the values that
// they describe.

#ifndef TORCHTRACE_PYTHON_PYTHON_DIALECT_H_
#define TORCHTRACE_PYTHON_PYTHON_DIALECT_H_

#include <Python.h>

#include "serialize/model/config_builder.h"

namespace torchtrace {

// Describes a Python value for a call that an extension records (serialize/model/value.h). Builtin types are described
// natively; for others, `special` is called with the value and returns a dict of its properties, a str as its
// description, or None for the type's name alone. A dict with "shape" and "dtype" is an array, with "device" a tensor.
// False with a Python error set when it raises, or returns something else. Needs the GIL.
bool DescribeValue(PyObject* value, PyObject* special, ConfigBuilder* config);

// torchtrace._native.record(level, api, args, kwargs, special): describes a call and records its begin. Returns a
// context manager: the call ends with its block, and an exception that leaves the block is recorded as the call's.
// Without a block, the call ends with the object. None while nothing is recorded.
PyObject* RecordCall(PyObject* self, PyObject* args);

// register_dialect(name, package, levels, extension): registers a dialect written in Python (_extension.py, which
// guards calls of user code) under this name, and replaces one with the same name. Needs the GIL.
PyObject* RegisterPythonDialect(PyObject* self, PyObject* args);

}  // namespace torchtrace

#endif  // TORCHTRACE_PYTHON_PYTHON_DIALECT_H_
