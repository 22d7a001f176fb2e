// The patches of Python functions that nothing here keeps alive: a loop may define one in each pass, with all that its
// closure holds. Guarded by the GIL.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_FUNCTION_PATCHES_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_FUNCTION_PATCHES_H_

#include <Python.h>

#include "absl/container/flat_hash_map.h"
#include "dialects/python/setattr/patch_list.h"

namespace torchtrace::python_dialect {

// Never freed: functions are freed at any time.
class FunctionPatches {
 public:
  FunctionPatches();
  FunctionPatches(const FunctionPatches&) = delete;
  FunctionPatches& operator=(const FunctionPatches&) = delete;

  bool Has(PyObject* function) const { return patches_.contains(function); }
  // The function's patches, which are forgotten when it is freed. Valid until the next call.
  PatchList* Of(PyObject* function);
  void UndoAll();

 private:
  static void Free(PyObject* function);

  absl::flat_hash_map<PyObject*, PatchList> patches_;
};

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_FUNCTION_PATCHES_H_
