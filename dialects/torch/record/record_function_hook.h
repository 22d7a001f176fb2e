// Level 4: what PyTorch reports to its own profiler.

#ifndef TORCHTRACE_DIALECTS_TORCH_RECORD_RECORD_FUNCTION_HOOK_H_
#define TORCHTRACE_DIALECTS_TORCH_RECORD_RECORD_FUNCTION_HOOK_H_

#include <cstdint>
#include <string>

#include "serialize/model/levels.h"
#include "tracer/framework_dialect.h"

namespace torchtrace::torch_dialect {

// A global callback of RecordFunction, which runs on every thread (docs/RECORD.md). Operators are
// described as at level 2; backward nodes and scopes have RecordFunction's name.
class RecordFunctionHook : public TracingHook {
 public:
  // Uses two of the options: whether to record outputs, and RecordFunction's ids.
  explicit RecordFunctionHook(const RecordingOptions& options) : outputs_(options.outputs), ids_(options.ids) {}

  int level() const override { return kRecordLevel; }
  std::string name() const override { return "record function"; }
  absl::Status Install() override;
  void Uninstall() override;

 private:
  const bool outputs_;
  const bool ids_;
  uint64_t callback_ = 0;  // 0: none
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_RECORD_RECORD_FUNCTION_HOOK_H_
