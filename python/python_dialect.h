// What the native module offers to Python: dialects written in Python, calls that they record, values that they
// describe.

#ifndef TORCHTRACE_PYTHON_PYTHON_DIALECT_H_
#define TORCHTRACE_PYTHON_PYTHON_DIALECT_H_

#include <Python.h>

#include "serialize/model/config_builder.h"

namespace torchtrace {

// Describes Python values for calls that extensions record (serialize/model/value.h): builtin
// types natively, and what they don't cover by asking the extension. Needs the GIL.

// Appends the description. `special` is called with values of other types than Python's
// builtin ones and returns a dict of their properties, a str that stands for them, or
// None: the type's name says it all. A dict with "shape" and "dtype" is an array, with
// "device" a tensor. False with a Python error set when it raises, or returns
// something else.
bool DescribeValue(PyObject* value, PyObject* special, ConfigBuilder* config);

// A call that an extension records: torchtrace._native.record().

// record(level, api, args, kwargs, special): describes the call (python_dialect.h) and
// records that it was entered. Returns a context manager: the call ends with its block, in
// which an exception is the call's, or else when the object goes. None while nothing is recorded.
PyObject* RecordCall(PyObject* self, PyObject* args);

// A dialect that is written in Python: python/torchtrace/_extension.py, which guards what
// it calls of the user's. Needs the GIL.

// register_dialect(name, package, levels, extension): makes it known under this name, in
// place of one that was registered under it before.
PyObject* RegisterPythonDialect(PyObject* self, PyObject* args);

}  // namespace torchtrace

#endif  // TORCHTRACE_PYTHON_PYTHON_DIALECT_H_
