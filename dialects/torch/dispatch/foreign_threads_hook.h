// Names what level 2 does not see: operators that are called on threads which C++ made, and which
// have called no Python yet. No dispatch mode sees them either, the keys and modes being the thread's.
// One at a time is installed.

#ifndef TORCHTRACE_DIALECTS_TORCH_DISPATCH_FOREIGN_THREADS_HOOK_H_
#define TORCHTRACE_DIALECTS_TORCH_DISPATCH_FOREIGN_THREADS_HOOK_H_

#include <string>

#include "tracer/tracing_hook.h"

namespace torchtrace::torch_dialect {

class ForeignThreadsHook : public TracingHook {
 public:
  int level() const override { return 2; }
  std::string name() const override { return "foreign threads"; }
  absl::Status Install() override;
  void Uninstall() override;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DISPATCH_FOREIGN_THREADS_HOOK_H_
