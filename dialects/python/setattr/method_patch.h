// Entries of level 0 in functions and methods that are written in C: they replace
// the pointer in the method's definition (PyMethodDef::ml_meth), which every
// object that Python makes of it shares, bound or not. Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_METHOD_PATCH_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_METHOD_PATCH_H_

#include <Python.h>

#include "dialects/python/describe/traced_api.h"
#include "dialects/python/setattr/patch_list.h"

namespace torchtrace::python_dialect {

// How the function's first C argument is taken.
enum class MethodSelf {
  kArgument,  // a method's object, or a class method's class: the first argument
  kModule,    // no argument
  kOnly,      // no argument, and only calls with `only_self` are meant: a bound method
};

// False, with nothing changed: a calling convention that isn't known, no room
// for more, or a constant definition.
bool PatchMethod(int layer, PyMethodDef* definition, MethodSelf self, PyObject* only_self, const TracedApi* api,
                 PatchList* patches);

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_METHOD_PATCH_H_
