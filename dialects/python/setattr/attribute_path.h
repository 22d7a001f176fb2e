// Finds the object that a dotted name refers to; keeps builtins equal while entries are in them.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_ATTRIBUTE_PATH_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_ATTRIBUTE_PATH_H_

#include <Python.h>

#include <string>
#include <string_view>

#include "tracer/record/export.h"

namespace torchtrace::python_dialect {

struct Attribute {
  // As it is in the dictionary of its module, class or object: a staticmethod object, a property. Borrowed; null: not
  // found.
  PyObject* object = nullptr;
  PyObject* owner = nullptr;  // the module, class or object that it was found in, or in a base of it
  // "__get__" or "__set__" if the name has it after a property.
  std::string accessor;
  // If not found: the module whose import may define it; or empty.
  std::string awaited_module;
};

// Finds the object that a dotted name refers to: "torch.nn.Linear", "torch.Tensor.shape.__get__". Runs no Python code:
// imports no module, calls no __getattr__, binds no descriptor. `complete` is a module whose own code has run, though
// Python still marks it as initializing. Needs the GIL.
TORCHTRACE_EXPORT Attribute FindAttribute(std::string_view dotted, std::string_view complete = {});

// CPython compares and hashes builtin functions by their C function: torch.mm and torch.spmm are equal. An entry
// replaces that C function, so from Start to Stop builtins compare and hash as if there were no entries: dictionaries
// filled before an entry was made still work. The two nest. Needs the GIL.
TORCHTRACE_EXPORT void StartKeepingBuiltins();
TORCHTRACE_EXPORT void StopKeepingBuiltins();

// Call it before an entry replaces `original`. If `original` is itself an entry, the function kept for that stays.
TORCHTRACE_EXPORT void KeepBuiltin(PyMethodDef* definition, PyCFunction original);

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_ATTRIBUTE_PATH_H_
