// Level 3 for torch: the calls of nn.Modules, with their paths in the models they are parts of.

#ifndef TORCHTRACE_DIALECTS_TORCH_FRAME_MODULE_CALLS_H_
#define TORCHTRACE_DIALECTS_TORCH_FRAME_MODULE_CALLS_H_

#include <Python.h>

#include <string>

#include "dialects/python/setattr/patch_list.h"
#include "serialize/model/config_builder.h"
#include "serialize/model/levels.h"
#include "tracer/framework_dialect.h"

namespace torchtrace::torch_dialect {

// The path of the module whose call is the innermost one on this thread; empty: there is none.
std::string ModuleUnderWay();

// One native entry, in the function of torch.nn.Module.__call__ (docs/FRAME.md). A process has at most one; install it
// after the other levels' hooks, so that a module's call is the parent of theirs.
class ModuleCallsHook : public TracingHook {
 public:
  using Describe = void (*)(PyObject* value, ConfigBuilder* config);
  // `describe` describes what a module returns, if outputs are recorded.
  explicit ModuleCallsHook(Describe describe) : describe_(describe) {}

  int level() const override { return kFrameLevel; }
  std::string name() const override { return "module calls"; }
  absl::Status Install() override;
  void Uninstall() override;

 private:
  const Describe describe_;
  python_dialect::PatchList patches_;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_FRAME_MODULE_CALLS_H_
