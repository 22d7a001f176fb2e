#include "dialects/python/setattr/function_patches.h"

#include <utility>
#include <vector>

namespace torchtrace::python_dialect {
namespace {

std::vector<FunctionPatches*>& AllFunctionPatches() {
  static auto* const all = new std::vector<FunctionPatches*>;
  return *all;
}

destructor g_free_function = nullptr;

}  // namespace

FunctionPatches::FunctionPatches() { AllFunctionPatches().push_back(this); }

void FunctionPatches::Free(PyObject* function) {
  for (FunctionPatches* const each : AllFunctionPatches()) each->patches_.erase(function);
  g_free_function(function);
}

PatchList* FunctionPatches::Of(PyObject* function) {
  if (g_free_function == nullptr) g_free_function = std::exchange(PyFunction_Type.tp_dealloc, Free);
  return &patches_[function];
}

void FunctionPatches::UndoAll() {
  for (auto& [function, patches] : patches_) patches.UndoAll();
  patches_.clear();
}

}  // namespace torchtrace::python_dialect
