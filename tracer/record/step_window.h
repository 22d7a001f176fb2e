// Which of a process's steps are recorded: `run --steps, --max-steps`. The recorder's lock guards it.

#ifndef TORCHTRACE_TRACER_RECORD_STEP_WINDOW_H_
#define TORCHTRACE_TRACER_RECORD_STEP_WINDOW_H_

#include <cstdint>
#include <optional>

#include "serialize/base/matching.h"
#include "serialize/model/step_marks.h"
#include "tracer/record/recording_options.h"

namespace torchtrace {

class StepWindow {
 public:
  // Where in its steps the program is.
  struct Place {
    StepKind kind = StepKind::kForward;
    uint64_t number = 0;   // of the step; between steps, of the one before
    bool in_step = false;  // false: before the first one, or between steps that the program tags
    uint64_t name = 0;     // the number that the user knows: the tag's value, if that is one
    int64_t begin_ns = 0;  // since when
  };

  explicit StepWindow(const RecordingOptions& options);

  // Whether the options leave out any step.
  static bool Limits(const RecordingOptions& options);

  // Until when the last step was recorded, if nothing after its end is.
  struct StepEnd {
    StepKind kind;
    uint64_t number;
    int64_t end_ns;
  };
  // The program is at `place` now. `recorded`: calls were recorded up to now, as far as all else decides it.
  std::optional<StepEnd> Move(const Place& place, bool recorded);
  // Whether calls are recorded where the program is.
  bool admits() const { return admits_; }
  // Whether it ever admitted a step.
  bool admitted_any() const { return admitted_any_; }

  // In a forked process, whose steps are its own.
  void Begin();

 private:
  bool Admits() const;

  std::optional<NumberSet> steps_;  // nothing: all
  uint64_t most_ = 0;               // 0: no limit
  Place place_;
  uint64_t recorded_ = 0;  // steps of place_.kind that have ended
  bool admits_ = false;
  bool admitted_any_ = false;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_STEP_WINDOW_H_
