// The names by which calls show what a training program does: run backward passes, step optimizers.

#ifndef TORCHTRACE_SERIALIZE_TRACE_TRAINING_CALLS_H_
#define TORCHTRACE_SERIALIZE_TRACE_TRAINING_CALLS_H_

#include <string_view>

#include "serialize/base/text.h"

namespace torchtrace {

// Whether a function of this name runs backward passes, and nothing else.
inline bool RunsBackward(std::string_view api) {
  constexpr std::string_view kFunctions[] = {"torch.Tensor.backward", "torch._tensor.Tensor.backward",
                                             "torch.autograd.backward", "torch.autograd.grad",
                                             "torch.autograd.graph._engine_run_backward"};
  return IsOneOf(api, kFunctions) || api.ends_with(".run_backward");
}

// How the names of PyTorch's own scopes begin: around `step` and `zero_grad`, `Optimizer.step#AdamW.step`.
inline constexpr std::string_view kOptimizerScope = "Optimizer.";
inline constexpr std::string_view kOptimizerStepScope = "Optimizer.step#";
// Those of the library's optimizers, and of their methods.
inline constexpr std::string_view kOptimizers = "torch.optim.";

// Whether an optimizer's `step` calls itself so: as a scope at level 4, as a function at the others.
inline bool IsOptimizerStep(std::string_view api) {
  return api.starts_with(kOptimizerStepScope) || (api.starts_with(kOptimizers) && api.ends_with(".step"));
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_TRAINING_CALLS_H_
