// Which member of PyTorch's enumerations a value of C++ is, where no object of Python's tells it.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_ENUM_NAMES_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_ENUM_NAMES_H_

#include <ATen/core/ivalue.h>
#include <Python.h>

#include <string>

namespace torchtrace::torch_dialect {

// Call once, before the others: the first look-up makes Python objects.
void InitEnumNames();

// Of an object that pybind11 made, as ObjectName has it: what C++ returns is no member itself but equals one, and a
// torch.distributed.ReduceOp holds one. Empty for all else.
std::string PybindValueName(PyObject* value, PyTypeObject* type);

// The same of a ReduceOp as operators take it; empty for other objects of TorchScript's.
std::string ReduceOpName(const c10::IValue& object);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_ENUM_NAMES_H_
