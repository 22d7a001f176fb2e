// The steps of a trace's processes: in which one each call is, when they began and ended, which took unusually long.

#ifndef TORCHTRACE_SERIALIZE_TRACE_STEP_TIMES_H_
#define TORCHTRACE_SERIALIZE_TRACE_STEP_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/trace/trace.h"

namespace torchtrace {

struct ProgramStep {
  uint64_t number = 0;  // from 1, in its process
  std::string name;     // the number, or the value of the program's tag as JSON
  int64_t begin_ns = 0;
  std::optional<int64_t> end_ns;  // nothing: it did not end, or when is unknown
};

// Where a call is.
struct StepPlace {
  enum Kind : uint8_t {
    kNone,    // the process has no steps
    kBefore,  // the first step
    kInStep,
    kBetween,  // steps that the program tags
    kAfter,    // the last step
  } kind = kNone;
  uint64_t number = 0;  // of the step; between and after them, of the one before
};

// Of a call with these tags, in a process of the trace of which that is known. A process's end tells from the beginning
// which step did not end: that is none, and its calls come after the last one.
StepPlace PlaceInSteps(const Trace& trace, const ProcessMetadata& known, uint32_t tags);

// Whether a process had steps, by its metadata: those of a process that was killed may lack them.
bool TellsOfSteps(const ProcessMetadata& known);

// An error's words on a trace without steps, "the trace has".
std::string NoSteps(std::string_view who_has, const Trace& trace);

// A process's steps are found in the tags of its calls, so they are complete when all calls were added.
class StepTimes {
 public:
  // The trace must outlive it.
  explicit StepTimes(const Trace* trace) : trace_(*trace) {}

  // Of a call's entry, which it learns from.
  StepPlace Add(const CallRecord& entry);
  // Call it after the last one.
  void Finish();

  // In order. Names are known from the first call of a step on, ends after Finish.
  const std::map<uint64_t, ProgramStep>& Of(uint32_t process) const;
  // The step that was under way at that time; null: none. After Finish.
  const ProgramStep* At(uint32_t process, int64_t time_ns) const;

 private:
  struct Process {
    std::map<uint64_t, ProgramStep> steps;
    std::vector<const ProgramStep*> in_order;  // the same, after Finish
    std::map<uint64_t, int64_t> ends;          // of tagged steps that others don't follow at once
    int64_t last_ns = 0;
    uint32_t tags = kNoTags;  // of the last call
    StepPlace place;          // the same
    bool asked = false;       // there was one
  };
  StepPlace Find(Process* process, const ProcessMetadata& known, uint32_t tags) const;

  const Trace& trace_;
  std::vector<Process> processes_;
};

// How long steps took.
struct StepSummary {
  size_t steps = 0;
  int64_t mean_ns = 0;
  int64_t p50_ns = 0, p90_ns = 0, p99_ns = 0;  // nearest rank
  // Of the steps given, by index: those that took more than 1.5 times the median, and clearly more than most others (by
  // six median deviations).
  std::vector<size_t> odd;
};
StepSummary SummarizeSteps(const std::vector<int64_t>& wall_ns);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_STEP_TIMES_H_
