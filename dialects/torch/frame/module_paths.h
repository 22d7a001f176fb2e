// Where a module is: in which model, and by which names. docs/FRAME.md.
//
// A model is a module that is part of no other, or was of none when it was first called. All here is guarded by the
// GIL.

#ifndef TORCHTRACE_DIALECTS_TORCH_FRAME_MODULE_PATHS_H_
#define TORCHTRACE_DIALECTS_TORCH_FRAME_MODULE_PATHS_H_

#include <Python.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace torchtrace::torch_dialect {

// 0 is none; no number comes again.
using ModelNumber = uint64_t;

struct ModulePlace {
  ModelNumber model = 0;
  std::string model_name;  // "Gen_0"
  std::string path;        // "layers.0.fc"; empty: it is the model itself
};

// By model and module: no path led from the one to the other when it was looked for.
using ModulesApart = std::set<std::pair<ModelNumber, PyObject*>>;

// `around`: the model of the call that the module is called in, if any. `module_class`: torch.nn.Module.
ModulePlace PlaceOf(PyObject* module, PyTypeObject* module_class, ModelNumber around, ModulesApart* apart);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_FRAME_MODULE_PATHS_H_
