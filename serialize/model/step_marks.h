// The steps of a program, as the tags of calls tell them: what a step is and when it began.

#ifndef TORCHTRACE_SERIALIZE_MODEL_STEP_MARKS_H_
#define TORCHTRACE_SERIALIZE_MODEL_STEP_MARKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace torchtrace {

// A step under way.
struct StepMark {
  uint64_t number = 0;   // from 1; 0: the first one has not begun
  int64_t begin_ns = 0;  // CLOCK_MONOTONIC

  friend bool operator==(const StepMark&, const StepMark&) = default;
};

// By what steps are counted: outermost calls of modules; what ends steps (optimizers, or an API of the user's choice);
// the program's own tag `step`. Until one of the latter two has ended a step, it is open which of them will.
enum class StepKind : uint8_t { kForward, kStep, kTag };
inline constexpr size_t kStepKinds = 3;
// "forward", "step", "tag", as metadata have it.
const char* StepKindName(StepKind kind);

struct StepMarks {
  StepMark of[kStepKinds];

  const StepMark& at(StepKind kind) const { return of[static_cast<size_t>(kind)]; }
  StepMark& at(StepKind kind) { return of[static_cast<size_t>(kind)]; }

  friend bool operator==(const StepMarks&, const StepMarks&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const StepMarks& marks) {
    for (const StepMark& mark : marks.of) hash = H::combine(std::move(hash), mark.number, mark.begin_ns);
    return hash;
  }
};

// Without those that can't be: damaged ones, and times of steps that have not begun.
StepMarks PossibleMarks(StepMarks marks);

// The name of the program's tag that numbers its steps.
inline constexpr char kStepTag[] = "step";

// The tag's value in the program's tags, as JSON; empty: they don't have it.
std::string_view StepTagOf(std::string_view tags);

// The program's tags, a JSON object's text or empty, with the marks as more members: the text of the record.
std::string WithStepMarks(std::string_view tags, const StepMarks& marks);
// By how much that is longer, at most.
inline constexpr size_t kMostStepMarksBytes = kStepKinds * 72;
// Takes the marks out of a record's text again. Text without any stays as it is.
StepMarks TakeStepMarks(std::string_view text, std::string* tags);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_STEP_MARKS_H_
