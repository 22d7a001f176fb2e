// Describes any Python object, those of PyTorch too, as dialects/python/value_describer.h says.
// Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_PYTHON_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_PYTHON_H_

#include <Python.h>

#include "dialects/python/config_builder.h"
#include "dialects/python/object_names.h"  // IWYU pragma: export
#include "dialects/python/python_text.h"   // IWYU pragma: export

namespace torchtrace::torch_dialect {

// Looks up the Python types of torch that the description knows. Call once,
// after torch was imported. False with a Python error set when torch lacks one.
bool InitDescribePython();

// torch.Tensor itself.
bool IsTensorType(const PyTypeObject* type);

void DescribePython(PyObject* value, ConfigBuilder* config);

// A tensor argument (of torch.Tensor or a subclass), with its subclass.
void DescribePythonTensor(PyObject* tensor, ConfigBuilder* config);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_PYTHON_H_
