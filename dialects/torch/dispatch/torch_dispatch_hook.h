// Level 2: its dispatch key, its hook, and the hook that notices operators on threads without the key.

#ifndef TORCHTRACE_DIALECTS_TORCH_DISPATCH_TORCH_DISPATCH_HOOK_H_
#define TORCHTRACE_DIALECTS_TORCH_DISPATCH_TORCH_DISPATCH_HOOK_H_

#include <c10/core/DispatchKey.h>

#include <string>

#include "serialize/model/levels.h"
#include "tracer/framework_dialect.h"

namespace torchtrace::torch_dialect {

// The dispatch key of level 2: next to Python's, and without kernels in the versions of torch that this was tested
// with.
inline constexpr c10::DispatchKey kDispatchKey = c10::DispatchKey::Fake;
// Before torch 2.13: a call that goes to a mode or a subclass passes this key first, and not only the calls that those
// make.
inline constexpr bool kAbovePython = kDispatchKey > c10::DispatchKey::Python;

// Reports what level 2 does not see: operators on threads that C++ made and that have called no Python yet. No dispatch
// mode sees them either, since keys and modes are per thread. At most one is installed.
class ForeignThreadsHook : public TracingHook {
 public:
  int level() const override { return kDispatchLevel; }
  std::string name() const override { return "foreign threads"; }
  absl::Status Install() override;
  void Uninstall() override;
};

// Level 2: ATen operators below autograd, backward included, as __torch_dispatch__ would show them.
//
// The hook is a boxed fallback on kDispatchKey (Install fails if this torch uses that key itself). A thread includes
// the key in its thread-local set, which PyTorch copies to autograd's threads. So the program keeps its own formulas: a
// Python dispatch mode would turn off those that are not safe for tensor subclasses. Calls that go to a subclass's own
// __torch_dispatch__ never reach a key below Python's; a replacement of the virtual dispatch() that calls it sees them.
class TorchDispatchHook : public TracingHook {
 public:
  // `marks_nodes`: calls get facts about autograd's nodes (node_marks.h), as those of level 4 have.
  explicit TorchDispatchHook(bool marks_nodes) : marks_nodes_(marks_nodes) {}

  int level() const override { return kDispatchLevel; }
  std::string name() const override { return "dispatch"; }
  absl::Status Install() override;
  void Uninstall() override;

 private:
  const bool marks_nodes_;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DISPATCH_TORCH_DISPATCH_HOOK_H_
