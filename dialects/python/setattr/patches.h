// The places where objects keep pointers to what is called, each with its kind of entry.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_PATCHES_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_PATCHES_H_

#include <Python.h>

#include "dialects/python/describe/describe_call.h"
#include "dialects/python/setattr/patch_list.h"

namespace torchtrace::python_dialect {

// Entries of level 0 in properties that are written in C (PyGetSetDef). Needs the
// GIL.

// Once per definition until everything is put back. Either API may be null: that accessor is left alone.
bool PatchProperty(int layer, PyGetSetDef* definition, const TracedApi* get, const TracedApi* set, PatchList* patches);

// Entries of level 0 in callables that are objects: Python functions, classes
// and whatever else carries a pointer of its own to what is called (`vectorcall`:
// numpy's ufuncs, functools.partial, functions of Cython), and in the rest
// through the type's `tp_call` (lru_cache's wrappers, classes whose metaclass is
// written in Python). The object itself stays what it is in all that Python code
// can ask of it. Needs the GIL.

// `callable` and `api` live for ever. False, with nothing changed: there is no such
// pointer, or somebody else's stands in it.
bool PatchCallable(int layer, PyObject* callable, const TracedApi* api, PatchList* patches);

// A class's own constructor in Python: what constructs instances of classes below it, which are no
// calls of the class itself. Calls are told as the class's.
bool PatchConstructor(int layer, PyTypeObject* type, const TracedApi* api, PatchList* patches);

// Entries of level 0 in functions and methods that are written in C: they replace
// the pointer in the method's definition (PyMethodDef::ml_meth), which every
// object that Python makes of it shares, bound or not. Needs the GIL.

// How the function's first C argument is taken.
enum class MethodSelf {
  kArgument,  // a method's object, or a class method's class: the first argument
  kModule,    // no argument
  kOnly,      // no argument, and only calls with `only_self` are meant: a bound method
  kOwn,       // no argument, and no other function has this `only_self`, nor this definition: pybind11's
};

// Whether an entry of any layer stands in it, before all others.
bool IsEntered(const PyMethodDef* definition);

// False, with nothing changed: a calling convention that isn't known, no room
// for more, or a constant definition.
bool PatchMethod(int layer, PyMethodDef* definition, MethodSelf self, PyObject* only_self, const TracedApi* api,
                 PatchList* patches);

// Entries of level 0 in the operators of types that are written in C (`x[0]`,
// numpy's `x + y`): they replace the type's slot, its subclasses' copies, and what
// the descriptor (`torch.Tensor.__getitem__`) calls. Needs the GIL.

// `descriptor` is a slot wrapper. Several share a slot (__add__ and __radd__, the
// six comparisons): each call is told under the right one, if that was patched.
// False, with nothing changed: an operator that isn't known, or no room.
bool PatchSlot(int layer, PyObject* descriptor, const TracedApi* api, PatchList* patches);

// Gives subclasses their slots back, those made since too. After UndoAll.
void RestoreInheritedSlots(int layer);

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_PATCHES_H_
