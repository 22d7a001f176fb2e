// Entries of level 0 in callables that are objects: Python functions, classes
// and whatever else carries a pointer of its own to what is called (`vectorcall`:
// numpy's ufuncs, functools.partial, functions of Cython), and in the rest
// through the type's `tp_call` (lru_cache's wrappers, classes whose metaclass is
// written in Python). The object itself stays what it is in all that Python code
// can ask of it. Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_CALLABLE_PATCH_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_CALLABLE_PATCH_H_

#include <Python.h>

#include "dialects/python/describe/traced_api.h"
#include "dialects/python/setattr/patch_list.h"

namespace torchtrace::python_dialect {

// `callable` and `api` live for ever. False, with nothing changed: there is no such
// pointer, or somebody else's stands in it.
bool PatchCallable(int layer, PyObject* callable, const TracedApi* api, PatchList* patches);

// A class's own constructor in Python: what constructs instances of classes below it, which are no
// calls of the class itself. Calls are told as the class's.
bool PatchConstructor(int layer, PyTypeObject* type, const TracedApi* api, PatchList* patches);

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_CALLABLE_PATCH_H_
