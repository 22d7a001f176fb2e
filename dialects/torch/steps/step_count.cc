#include "dialects/torch/steps/step_count.h"

#include "serialize/base/monotonic_clock.h"

namespace torchtrace::torch_dialect {

bool StepCount::BeginFirst(StepKind kind) {
  StepMark& mark = marks_.at(kind);
  if (mark.number != 0) return false;
  mark = {1, static_cast<int64_t>(MonotonicNowNs())};
  return true;
}

void StepCount::EndStep(StepKind kind) {
  BeginFirst(kind);
  StepMark& mark = marks_.at(kind);
  mark = {mark.number + 1, static_cast<int64_t>(MonotonicNowNs())};
  decided_ = decided_ || kind == StepKind::kStep;
  Changed();
}

bool StepCount::ByModules() const { return on_ == StepOn::kForward || (on_ == StepOn::kAuto && !decided_); }

void StepCount::SeeModule() {
  if (module_.thread != nullptr || (!ByModules() && marks_.at(StepKind::kStep).number != 0)) return;
  bool first = false;
  if (on_ != StepOn::kAuto || optimizers_) first = BeginFirst(StepKind::kStep);
  if (on_ == StepOn::kAuto) first = BeginFirst(StepKind::kForward) || first;
  if (first) Changed();
}

bool StepCount::BeginModule(const void* thread) {
  SeeModule();
  if (module_.thread != nullptr || (!ByModules() && stepped_)) return false;
  module_ = {thread, nullptr, ++order_};
  return true;
}

bool StepCount::BeginStep(const void* thread, const void* optimizer) {
  if (step_.thread != nullptr) return false;
  if (optimizer != nullptr) optimizers_ = stepped_ = true;
  if (BeginFirst(StepKind::kStep)) Changed();
  step_ = {thread, optimizer, ++order_};
  return true;
}

void StepCount::End(const void* thread, bool returned) {
  const bool is_step = step_.thread == thread && (module_.thread != thread || step_.order > module_.order);
  if (!is_step && module_.thread != thread) return;  // it began before a fork
  UnderWay& ended = is_step ? step_ : module_;
  const void* const optimizer = std::exchange(ended, UnderWay()).optimizer;
  if (!returned) return;
  if (!is_step) {
    // An optimizer may have stepped within the call.
    if (ByModules()) EndStep(on_ == StepOn::kForward ? StepKind::kStep : StepKind::kForward);
  } else if (optimizer == nullptr || decides_(optimizer)) {
    EndStep(StepKind::kStep);
  }
}

void StepCount::Forget() {
  marks_ = StepMarks();
  decided_ = false;
  stepped_ = false;
  module_ = step_ = UnderWay();
}

}  // namespace torchtrace::torch_dialect
