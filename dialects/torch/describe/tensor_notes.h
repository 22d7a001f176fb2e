// What a trace may be asked to keep of tensors beside their metadata: identities, ranges of integers, contents.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_TENSOR_NOTES_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_TENSOR_NOTES_H_

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "serialize/model/config_builder.h"
#include "serialize/model/levels.h"
#include "tracer/framework_dialect.h"

namespace torchtrace::torch_dialect {

inline std::atomic<bool> g_tensor_notes_wanted{false};

// What DescribeTensor adds after each tensor. As passive as it is: elements are read on the CPU alone, from memory that
// is there already; for first notes (ConfigBuilder), which nobody asked for, only where that is sure to be so.
void NoteTensor(const at::Tensor& tensor, ConfigBuilder* config);

// Numbers the tensors that Python has objects of, and their gradients, where nobody asked for them yet: what is above
// the last of these numbers is made later. Nothing: nobody can tell. Needs the GIL.
std::optional<uint64_t> NumberTensorsOfPython();

// Has them taken while it is installed. It comes before the hooks that describe calls.
class TensorNotesHook : public TracingHook {
 public:
  TensorNotesHook(int level, const RecordingOptions& options) : level_(level), options_(options) {}

  int level() const override { return level_; }
  std::string name() const override { return "notes on tensors"; }
  absl::Status Install() override;
  void Uninstall() override;

 private:
  const int level_;
  const RecordingOptions options_;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_TENSOR_NOTES_H_
