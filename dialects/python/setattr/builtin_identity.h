// CPython compares and hashes builtin functions by the C function behind them:
// torch.mm and torch.spmm are equal. Where entries stand before those, this makes
// functions equal, and their hashes, as if there were none, so that dictionaries
// filled before and after an entry was made agree. Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_BUILTIN_IDENTITY_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_BUILTIN_IDENTITY_H_

#include <Python.h>

#include "tracer/record/export.h"

namespace torchtrace::python_dialect {

// Around the time in which entries are in place; counted.
TORCHTRACE_EXPORT void StartKeepingBuiltins();
TORCHTRACE_EXPORT void StopKeepingBuiltins();

// An entry is about to take the place of `original`. Where another entry stands
// there already, what was kept for that one holds.
TORCHTRACE_EXPORT void KeepBuiltin(PyMethodDef* definition, PyCFunction original);

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_BUILTIN_IDENTITY_H_
