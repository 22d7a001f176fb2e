// Installs entries in the places where objects keep pointers to the called code, one function for each kind of place.
// All need the GIL.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_PATCHES_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_PATCHES_H_

#include <Python.h>

#include "dialects/python/describe/describe_call.h"
#include "dialects/python/setattr/patch_list.h"

namespace torchtrace::python_dialect {

// For properties written in C (PyGetSetDef). Patches a definition once until everything is restored. Either API may be
// null: that accessor is left alone.
bool PatchProperty(int layer, PyGetSetDef* definition, const TracedApi* get, const TracedApi* set, PatchList* patches);

// For callables that are objects: Python functions, classes and others with their own pointer to the called code
// (`vectorcall`: numpy's ufuncs, functools.partial, functions of Cython), and the rest through the type's `tp_call`
// (lru_cache's wrappers, classes whose metaclass is written in Python). Python code can't see a difference in the
// object. `api` is never freed, `callable` not before `patches` are undone, unless it is a function. False, with
// nothing changed: there is no such pointer, or it is other code's.
bool PatchCallable(int layer, PyObject* callable, const TracedApi* api, PatchList* patches);

// For a new type, which may lie where a freed one lay and inherit its base's `tp_call`: forgets what the freed one's
// was.
void ForgetOlderType(PyTypeObject* type);

// Functions with this `vectorcall` are patched too, like those with CPython's.
void PatchAlso(vectorcallfunc vectorcall);

// Where the function keeps what its entries call last: its own `vectorcall`, or what the entry below all others calls.
vectorcallfunc* PointerBelowEntries(PyFunctionObject* function);

// For a class's own constructor in Python, which also constructs instances of subclasses; these are no calls of the
// class itself, but are reported as such.
bool PatchConstructor(int layer, PyTypeObject* type, const TracedApi* api, PatchList* patches);

// For the getter of a property in Python. `type`: the property's class; null: another object has it.
bool PatchGetter(int layer, PyTypeObject* type, PyObject* function, const TracedApi* api, PatchList* patches);

// What the function's first C argument is.
enum class MethodSelf {
  kArgument,  // the first argument: a method's object, or a class method's class
  kModule,    // no argument
  kOnly,      // no argument; only calls with `only_self` are reported: a bound method
  kOwn,       // no argument; no other function has this `only_self` or this definition: pybind11's
};

// Whether the definition calls an entry of any layer first.
bool IsEntered(const PyMethodDef* definition);

// For functions and methods written in C: replaces the pointer in the method's definition (PyMethodDef::ml_meth), which
// all objects that Python makes of it share, bound or not. False, with nothing changed: an unknown calling convention,
// no room for more, or a constant definition.
bool PatchMethod(int layer, PyMethodDef* definition, MethodSelf self, PyObject* only_self, const TracedApi* api,
                 PatchList* patches);

// For operators of types written in C (`x[0]`, numpy's `x + y`): replaces the type's slot, its subclasses' copies, and
// what the descriptor (`torch.Tensor.__getitem__`) calls. `descriptor` is a slot wrapper. Several share a slot (__add__
// and __radd__, the six comparisons): each call is reported under the right one, if that was patched. False, with
// nothing changed: an unknown operator, or no room.
bool PatchSlot(int layer, PyObject* descriptor, const TracedApi* api, PatchList* patches);

// Restores the slots of subclasses, also of those made since. Call it after UndoAll.
void RestoreInheritedSlots(int layer);

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_PATCHES_H_
