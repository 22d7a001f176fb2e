#include "tracer/record/step_window.h"

#include <utility>

namespace torchtrace {

StepWindow::StepWindow(const RecordingOptions& options) : most_(options.max_steps) {
  if (!options.steps.empty()) steps_ = NumberSet::Parse(options.steps).value_or(NumberSet());
  Begin();
}

bool StepWindow::Limits(const RecordingOptions& options) { return !options.steps.empty() || options.max_steps != 0; }

bool StepWindow::Admits() const {
  if (most_ != 0 && recorded_ >= most_) return false;
  return !steps_.has_value() || (place_.in_step && steps_->Contains(place_.name));
}

std::optional<StepWindow::StepEnd> StepWindow::Move(const Place& place, bool recorded) {
  const Place before = std::exchange(place_, place);
  if (place.kind != before.kind) {
    // What ends steps has become known: those before were none.
    recorded_ = 0;
  } else if (place.number == before.number && place.in_step == before.in_step) {
    return std::nullopt;
  }
  const bool ended = place.kind == before.kind && before.in_step && admits_;
  if (ended && recorded) ++recorded_;
  admits_ = Admits();
  admitted_any_ = admitted_any_ || (admits_ && place.in_step);
  if (!ended || admits_) return std::nullopt;
  return StepEnd{before.kind, before.number, place.begin_ns};
}

void StepWindow::Begin() {
  place_ = Place();
  recorded_ = 0;
  admits_ = Admits();
  admitted_any_ = false;
}

}  // namespace torchtrace
