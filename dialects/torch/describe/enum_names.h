// Names of members of PyTorch's C++ enumerations and of process groups, for values whose Python object has no name.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_ENUM_NAMES_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_ENUM_NAMES_H_

#include <ATen/core/ivalue.h>
#include <Python.h>

#include <string>

namespace torchtrace::torch_dialect {

// Call once, before the others: the first look-up makes Python objects.
void InitEnumNames();

// The name of an object that pybind11 made, in ObjectName's form: a value that C++ returns equals a member but is
// another object, and a torch.distributed.ReduceOp holds a member. A ProcessGroup has the name that its ranks share.
// Empty for all other objects.
std::string PybindValueName(PyObject* value, PyTypeObject* type);

// Whether an object of TorchScript (`object.isObject()`) is a ReduceOp, as operators take it; and the same for a
// ReduceOp.
bool IsReduceOp(const c10::IValue& object);
std::string ReduceOpName(const c10::IValue& object);

// The same for a ProcessGroup: `torch.distributed.distributed_c10d.ProcessGroup.0`. A group of a class of the program's
// has no name here, since its own code would give it.
bool IsProcessGroup(const c10::IValue& object);
std::string ProcessGroupName(const c10::IValue& object);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_ENUM_NAMES_H_
