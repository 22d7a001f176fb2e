// Device times as a hook of a session, and the program's own profiler, which comes first.

#ifndef TORCHTRACE_DIALECTS_TORCH_DEVICE_TIMES_DEVICE_TIMES_HOOK_H_
#define TORCHTRACE_DIALECTS_TORCH_DEVICE_TIMES_DEVICE_TIMES_HOOK_H_

#include <string>

#include "tracer/framework_dialect.h"

namespace torchtrace::torch_dialect {

// Records device times while it is installed, but not while the program's own torch.profiler is on. Where there can be
// none, that is noted, and nothing else happens.
class DeviceTimesHook final : public TracingHook {
 public:
  explicit DeviceTimesHook(int level) : level_(level) {}

  int level() const override { return level_; }
  std::string name() const override { return "device times"; }
  absl::Status Install() override;
  void Uninstall() override;

 private:
  const int level_;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DEVICE_TIMES_DEVICE_TIMES_HOOK_H_
