// What a torch module, such as torchtrace_torch-2.13.so, offers to the dialect that loads it. Both are built from the
// same sources, for one minor version of Python; the module is built for one era of torch (versions.h).

#ifndef TORCHTRACE_DIALECTS_TORCH_TORCH_MODULE_H_
#define TORCHTRACE_DIALECTS_TORCH_TORCH_MODULE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "dialects/torch/versions/versions.h"
#include "tracer/framework_dialect.h"

typedef struct _object PyObject;

namespace torchtrace {

class TorchModule {
 public:
  virtual ~TorchModule() = default;
  // See FrameworkDialect.
  virtual absl::Status CreateHooks(Recorder* recorder, const RecordingOptions& options,
                                   const torch_dialect::TorchVersion& torch,
                                   std::vector<std::unique_ptr<TracingHook>>* hooks) = 0;
  // Of a module that is called, or an optimizer that steps, in a session with memory. Needs the GIL; the same.
  virtual void NoteParameters(PyObject* object) = 0;
  // The shortest public name of a function or class of torch. Needs the GIL; runs no Python code.
  virtual std::string NameOf(PyObject* callable) = 0;
};

// The module's one symbol: TorchModule* torchtrace_torch_module().
using TorchModuleFunction = TorchModule* (*)();
inline constexpr char kTorchModuleSymbol[] = "torchtrace_torch_module";

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_TORCH_TORCH_MODULE_H_
