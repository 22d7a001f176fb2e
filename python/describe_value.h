// Describes Python values for calls that extensions record (serialize/model/value.h): builtin
// types natively, and what they don't cover by asking the extension. Needs the GIL.

#ifndef TORCHTRACE_PYTHON_DESCRIBE_VALUE_H_
#define TORCHTRACE_PYTHON_DESCRIBE_VALUE_H_

#include <Python.h>

#include "serialize/model/config_builder.h"

namespace torchtrace {

// Appends the description. `special` is called with values of other types than Python's
// builtin ones and returns a dict of their properties, a str that stands for them, or
// None: the type's name says it all. A dict with "shape" and "dtype" is an array, with
// "device" a tensor. False with a Python error set when it raises, or returns
// something else.
bool DescribeValue(PyObject* value, PyObject* special, ConfigBuilder* config);

}  // namespace torchtrace

#endif  // TORCHTRACE_PYTHON_DESCRIBE_VALUE_H_
