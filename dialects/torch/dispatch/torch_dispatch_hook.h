// Level 2: its dispatch key, its hook, and the hook that finds operators on threads which it is not on.

#ifndef TORCHTRACE_DIALECTS_TORCH_DISPATCH_TORCH_DISPATCH_HOOK_H_
#define TORCHTRACE_DIALECTS_TORCH_DISPATCH_TORCH_DISPATCH_HOOK_H_

#include <c10/core/DispatchKey.h>

#include <string>

#include "serialize/model/levels.h"
#include "tracer/framework_dialect.h"

namespace torchtrace::torch_dialect {

// The dispatch key that level 2 stands on: beside Python's, and without kernels in the versions
// of torch that this was checked with.

inline constexpr c10::DispatchKey kDispatchKey = c10::DispatchKey::Fake;
// Before torch 2.13: a call that goes to a mode or a subclass comes by here before it, and not only the calls
// that those make.
inline constexpr bool kAbovePython = kDispatchKey > c10::DispatchKey::Python;

// Names what level 2 does not see: operators that are called on threads which C++ made, and which
// have called no Python yet. No dispatch mode sees them either, the keys and modes being the thread's.
// One at a time is installed.

class ForeignThreadsHook : public TracingHook {
 public:
  int level() const override { return kDispatchLevel; }
  std::string name() const override { return "foreign threads"; }
  absl::Status Install() override;
  void Uninstall() override;
};

// Level 2: ATen operators below autograd, backward included, as
// __torch_dispatch__ would show them.
//
// The hook is a boxed fallback on a dispatch key of its own: Fake, which stands
// beside Python's and has no kernels in the torch versions that this was
// checked with (Install refuses where it has). A thread includes the key in its
// thread-local set, which PyTorch carries over to autograd's threads. So the
// program keeps its own formulas: a Python dispatch mode would turn off those
// that are not safe for tensor subclasses. Calls that go to a subclass's own
// __torch_dispatch__ never come down to a key below Python's; they are seen by a
// wrapper around the Python interpreter's dispatch().

class TorchDispatchHook : public TracingHook {
 public:
  int level() const override { return kDispatchLevel; }
  std::string name() const override { return "dispatch"; }
  absl::Status Install() override;
  void Uninstall() override;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DISPATCH_TORCH_DISPATCH_HOOK_H_
