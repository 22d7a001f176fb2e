// Optional notes on tensors, in addition to their metadata: identities, ranges of integers, contents.

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
// Of which tensors there are numbers. With them, there are notes on what calls write.
inline std::atomic<WhichNumbers> g_which_numbers{WhichNumbers::kNone};
inline bool NumbersAreWanted() { return g_which_numbers.load(std::memory_order_relaxed) != WhichNumbers::kNone; }

// While it lives, the thread takes no numbers, nor any knowledge of what is written.
class WithoutNumbers {
 public:
  explicit WithoutNumbers(bool without) : before_(t_without_numbers) { t_without_numbers |= without; }
  ~WithoutNumbers() { t_without_numbers = before_; }
  WithoutNumbers(const WithoutNumbers&) = delete;

  static bool AreTaken() { return !t_without_numbers; }

 private:
  static inline constinit thread_local bool t_without_numbers = false;
  const bool before_;
};

// DescribeTensor calls this after each tensor. It is as passive: it reads elements on the CPU, from memory that is
// already there, and numbers on CUDA devices (device_notes.h); for first notes (ConfigBuilder), which need no option,
// it first checks that the memory is readable.
//
// `inner`: whose numbers are the tensor's: itself, or what it wraps.
void NoteTensor(const at::Tensor& tensor, const at::Tensor& inner, ConfigBuilder* config);

// The tensor's memory is written now, whatever its version tells.
void CountAsWritten(const at::Tensor& tensor);

// Gives numbers to the tensors that have Python objects, and to their gradients, and returns the last number: objects
// with higher numbers were made later. Nothing if Python's objects can't be listed. Needs the GIL.
std::optional<uint64_t> NumberTensorsOfPython();

// Turns the notes on while it is installed. Install it before the hooks that describe calls.
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
