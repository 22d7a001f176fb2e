// Names of Python objects, read from the fields of known C types: no Python code is called,
// and nothing raised or kept alive. Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_PYTHON_OBJECT_NAMES_H_
#define TORCHTRACE_DIALECTS_PYTHON_OBJECT_NAMES_H_

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

// What stands in the object's own __dict__ under an interned name; borrowed,
// null when it has no such thing.
PyObject* InstanceAttribute(PyObject* object, PyObject* name);

// A str's UTF-8 bytes without creating anything but its cached form; empty for
// other types and for what is not encodable.
std::string_view Utf8(PyObject* text);

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_PYTHON_OBJECT_NAMES_H_
