// Records the memory that PyTorch's allocators hand out and take back.

#ifndef TORCHTRACE_DIALECTS_TORCH_MEMORY_MEMORY_HOOK_H_
#define TORCHTRACE_DIALECTS_TORCH_MEMORY_MEMORY_HOOK_H_

#include <string>

#include "absl/status/status.h"
#include "serialize/base/version_spans.h"
#include "tracer/framework_dialect.h"

namespace torchtrace::torch_dialect {

class MemoryHook final : public TracingHook {
 public:
  MemoryHook(int level, const MinorVersion& torch) : level_(level), torch_(torch) {}

  int level() const override { return level_; }
  std::string name() const override { return "memory"; }
  absl::Status Install() override;
  void Uninstall() override;

 private:
  const int level_;
  const MinorVersion torch_;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_MEMORY_MEMORY_HOOK_H_
