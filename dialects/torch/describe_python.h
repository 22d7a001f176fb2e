// Describes any Python object (level 1's arguments), passively: reads fields of
// known C types and walks builtin containers by their own storage. It calls no
// Python code, not even __getattr__ or __repr__, raises nothing and keeps
// nothing alive. Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_PYTHON_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_PYTHON_H_

#include <Python.h>

#include <string>
#include <string_view>

#include "dialects/torch/config_builder.h"

namespace torchtrace::torch_dialect {

// Looks up the Python types of torch that the description knows. Call once,
// after torch was imported. False with a Python error set when torch lacks one.
bool InitDescribePython();

void DescribePython(PyObject* value, ConfigBuilder* config);

// A tensor argument (of torch.Tensor or a subclass), with its subclass.
void DescribePythonTensor(PyObject* tensor, ConfigBuilder* config);

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

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_PYTHON_H_
