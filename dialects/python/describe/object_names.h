// Names of Python objects, read from the fields of known C types: no Python code is called,
// and nothing raised or kept alive. Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_OBJECT_NAMES_H_
#define TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_OBJECT_NAMES_H_

#include <Python.h>

#include <string>
#include <string_view>

namespace torchtrace {

// "torch.nn.parameter.Parameter", "int", "collections.OrderedDict"; from the
// type's own dictionary, never through its metaclass.
std::string TypeName(PyTypeObject* type);

// "module.qualname" of a function, builtin, method descriptor or bound method;
// the type's name for any other object.
std::string CallableName(PyObject* callable);

// What stands in the object's own __dict__, or where CPython 3.11 keeps what one
// that nobody asked for would hold; borrowed, null when it has no such thing.
// `name` is ASCII.
PyObject* InstanceAttribute(PyObject* object, std::string_view name);

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_OBJECT_NAMES_H_
