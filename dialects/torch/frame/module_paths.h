// The path of a module in its model (docs/FRAME.md).
//
// A model is a module that is part of no other module, or was not when it was first called. The GIL guards everything
// here.

#ifndef TORCHTRACE_DIALECTS_TORCH_FRAME_MODULE_PATHS_H_
#define TORCHTRACE_DIALECTS_TORCH_FRAME_MODULE_PATHS_H_

#include <Python.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace torchtrace::torch_dialect {

// 0: no model. A number is never used again.
using ModelNumber = uint64_t;

struct ModulePlace {
  ModelNumber model = 0;
  std::string model_name;  // "Gen_0"
  std::string path;        // "layers.0.fc"; empty for the model itself
};

// Pairs of a model and a module in which a search did not find the module.
using ModulesApart = std::set<std::pair<ModelNumber, PyObject*>>;

// `around`: the model of the enclosing module call, or 0. `module_class`: torch.nn.Module.
ModulePlace PlaceOf(PyObject* module, PyTypeObject* module_class, ModelNumber around, ModulesApart* apart);

// Finds the place of a module that was never seen, which may take long, before the module's outermost call begins.
void LookForPlace(PyObject* module, PyTypeObject* module_class);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_FRAME_MODULE_PATHS_H_
