// From a name to the object that it names, and which builtin an object is.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_ATTRIBUTE_PATH_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_ATTRIBUTE_PATH_H_

#include <Python.h>

#include <string>
#include <string_view>

#include "tracer/record/export.h"

namespace torchtrace::python_dialect {

// Finds what a dotted name names, without running Python code: no module is
// imported, no __getattr__ asked, no descriptor bound. Needs the GIL.

struct Attribute {
  // As it stands in its module's, class's or object's dictionary: a staticmethod
  // object, a property. Borrowed; null: not there.
  PyObject* object = nullptr;
  // "__get__" or "__set__" when the name goes on with it behind a property.
  std::string accessor;
  // Where not there: the module by whose import it may come to be; or empty.
  std::string awaited_module;
};

// "torch.nn.Linear", "torch.Tensor.shape.__get__". `complete` is a module whose own
// code has run, though Python doesn't say so yet.
TORCHTRACE_EXPORT Attribute FindAttribute(std::string_view dotted, std::string_view complete = {});

// CPython compares and hashes builtin functions by the C function behind them:
// torch.mm and torch.spmm are equal. Where entries stand before those, this makes
// functions equal, and their hashes, as if there were none, so that dictionaries
// filled before and after an entry was made agree. Needs the GIL.

// Around the time in which entries are in place; counted.
TORCHTRACE_EXPORT void StartKeepingBuiltins();
TORCHTRACE_EXPORT void StopKeepingBuiltins();

// An entry is about to take the place of `original`. Where another entry stands
// there already, what was kept for that one holds.
TORCHTRACE_EXPORT void KeepBuiltin(PyMethodDef* definition, PyCFunction original);

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_ATTRIBUTE_PATH_H_
