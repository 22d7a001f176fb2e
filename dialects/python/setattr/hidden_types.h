// Types whose functions the specialising interpreter would enter directly, past their `vectorcall` (IsMadeUnasked,
// IsReadUnasked): from now on it calls them, for ever. A program can't see it. CPython's subclasses don't inherit this,
// so new types are looked at when they are made. All need the GIL.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_HIDDEN_TYPES_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_HIDDEN_TYPES_H_

#include <Python.h>

#include "absl/functional/function_ref.h"

namespace torchtrace::python_dialect {

// Its constructor, and the getters of its properties.
void HideMaking(PyTypeObject* type);
void HideReading(PyTypeObject* type);

// Calls `visit` with the type and all its subclasses, more than once if they lead to each other by several bases. The
// garbage collector may run; no Python error may be set.
void ForEachSubclass(PyTypeObject* type, absl::FunctionRef<void(PyTypeObject*)> visit);

// From now on calls `made` with each type that Python code makes, before the program has it, unless a base's own
// __init_subclass__ doesn't call the next one. Once for each function. Subclasses of types that are hidden from reading
// are hidden then.
void WatchNewTypes(void (*made)(PyTypeObject* type));

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_HIDDEN_TYPES_H_
