// Describes any Python object, those of PyTorch too, as dialects/python/describe/value_describer.h says.
// Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_DESCRIBE_PYTHON_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_DESCRIBE_PYTHON_H_

#include <Python.h>

#include "dialects/python/describe/object_names.h"  // IWYU pragma: export
#include "dialects/python/describe/python_text.h"   // IWYU pragma: export
#include "serialize/model/config_builder.h"

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

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_DESCRIBE_PYTHON_H_
