// Counts the steps of this process (docs/STATS.md#steps) as the calls that end them begin and end, and tells the
// recorder. Knows no Python. Guarded by the GIL.

#ifndef TORCHTRACE_DIALECTS_TORCH_STEPS_STEP_COUNT_H_
#define TORCHTRACE_DIALECTS_TORCH_STEPS_STEP_COUNT_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "serialize/model/step_marks.h"

namespace torchtrace::torch_dialect {

// What ends a step, by RecordingOptions::step_on: optimizers, and as long as none has stepped, modules; or one alone.
enum class StepOn : uint8_t { kAuto, kOptimizer, kForward, kApi };

class StepCount {
 public:
  // `tell` is called with each change; `decided`: what StepKind::kStep counts has ended a step. `decides`: whether this
  // optimizer, which has stepped, is the one that ends steps.
  using Tell = std::function<void(const StepMarks& marks, bool decided)>;
  using Decides = std::function<bool(const void* optimizer)>;
  StepCount(StepOn on, Decides decides, Tell tell) : on_(on), decides_(std::move(decides)), tell_(std::move(tell)) {}

  // An optimizer was made.
  void SeeOptimizer() { optimizers_ = true; }
  // One is about to step.
  void SeeStep() { stepped_ = true; }

  // A module is about to be called, which begins the first step. BeginModule does the same.
  void SeeModule();

  // Before calls; `thread` identifies the calling one. True: End follows. Calls in another of their kind, or while
  // another thread is in one, end no step. Modules begin as long as they end steps, or no optimizer has stepped.
  bool BeginModule(const void* thread);
  // `optimizer`: what steps, itself or by a gradient scaler, which may skip it; null: another API is called.
  bool BeginStep(const void* thread, const void* optimizer);
  // After the thread's innermost such call. `returned`: without an exception.
  void End(const void* thread, bool returned);

  // In a forked process, whose steps are its own.
  void Forget();

 private:
  struct UnderWay {
    const void* thread = nullptr;  // null: none
    const void* optimizer = nullptr;
    uint64_t order = 0;
  };
  bool ByModules() const;
  void EndStep(StepKind kind);
  bool BeginFirst(StepKind kind);
  void Changed() { tell_(marks_, decided_); }

  StepOn on_;
  Decides decides_;
  Tell tell_;
  StepMarks marks_;
  bool decided_ = false;
  bool optimizers_ = false;
  bool stepped_ = false;
  UnderWay module_, step_;
  uint64_t order_ = 0;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_STEPS_STEP_COUNT_H_
