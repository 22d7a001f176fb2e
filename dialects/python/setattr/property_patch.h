// Entries of level 0 in properties that are written in C (PyGetSetDef). Needs the
// GIL.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_PROPERTY_PATCH_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_PROPERTY_PATCH_H_

#include <Python.h>

#include "dialects/python/describe/traced_api.h"
#include "dialects/python/setattr/patch_list.h"

namespace torchtrace::python_dialect {

// Once per definition until everything is put back. Either API may be null: that accessor is left alone.
bool PatchProperty(int layer, PyGetSetDef* definition, const TracedApi* get, const TracedApi* set, PatchList* patches);

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_PROPERTY_PATCH_H_
