// Entries of level 0 in the operators of types that are written in C (`x[0]`,
// numpy's `x + y`): they replace the type's slot, its subclasses' copies, and what
// the descriptor (`torch.Tensor.__getitem__`) calls. Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_SLOT_PATCH_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_SLOT_PATCH_H_

#include <Python.h>

#include "dialects/python/describe/traced_api.h"
#include "dialects/python/setattr/patch_list.h"

namespace torchtrace::python_dialect {

// `descriptor` is a slot wrapper. Several share a slot (__add__ and __radd__, the
// six comparisons): each call is told under the right one, if that was patched.
// False, with nothing changed: an operator that isn't known, or no room.
bool PatchSlot(int layer, PyObject* descriptor, const TracedApi* api, PatchList* patches);

// Gives subclasses their slots back, those made since too. After UndoAll.
void RestoreInheritedSlots(int layer);

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_SLOT_PATCH_H_
