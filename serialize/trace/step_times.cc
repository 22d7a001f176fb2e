#include "serialize/trace/step_times.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "serialize/trace/run_facts.h"

namespace torchtrace {

StepPlace PlaceInSteps(const Trace& trace, const ProcessMetadata& known, uint32_t tags) {
  const StepMark& mark = trace.steps(tags).at(known.steps_by);
  if (mark.number == 0) return {TellsOfSteps(known) ? StepPlace::kBefore : StepPlace::kNone};
  if (known.steps_by == StepKind::kTag) {
    return {trace.step_tag(tags).empty() ? StepPlace::kBetween : StepPlace::kInStep, mark.number};
  }
  if (mark.number == known.last_steps.at(known.steps_by).number) return {StepPlace::kAfter, mark.number - 1};
  return {StepPlace::kInStep, mark.number};
}

bool TellsOfSteps(const ProcessMetadata& known) {
  return known.steps_by != StepKind::kForward || known.last_steps.at(StepKind::kForward).number > 0;
}

std::string NoSteps(std::string_view who_has, const Trace& trace) {
  const std::vector<ProcessInfo>& processes = trace.processes();
  const bool empty =
      std::all_of(processes.begin(), processes.end(), [](const ProcessInfo& process) { return process.calls == 0; });
  const std::string why = empty ? "no call was recorded" : WhyNotSeen(trace, "steps");
  return std::string(who_has) + " no steps: " +
         (why.empty() ? "no optimizer stepped, no nn.Module was called, and torchtrace.annotate(step=N) named none "
                        "(see docs/STATS.md)"
                      : why);
}

StepPlace StepTimes::Add(const CallRecord& entry) {
  if (entry.process >= processes_.size()) processes_.resize(entry.process + size_t{1});
  Process& process = processes_[entry.process];
  process.last_ns = std::max(process.last_ns, entry.time_ns);
  if (process.asked && process.tags == entry.tags) return process.place;
  process.asked = true;
  process.tags = entry.tags;
  return process.place = Find(&process, trace_.processes()[entry.process].known, entry.tags);
}

StepPlace StepTimes::Find(Process* process, const ProcessMetadata& known, uint32_t tags) const {
  const StepPlace place = PlaceInSteps(trace_, known, tags);
  const StepMark& mark = trace_.steps(tags).at(known.steps_by);
  if (place.kind == StepPlace::kBetween || place.kind == StepPlace::kAfter) {
    process->ends.try_emplace(place.number, mark.begin_ns);
  }
  if (place.kind != StepPlace::kInStep) return place;
  ProgramStep& step = process->steps[place.number];
  if (step.number == 0) {
    const bool by_tag = known.steps_by == StepKind::kTag;
    step = {
        place.number, by_tag ? std::string(trace_.step_tag(tags)) : std::to_string(place.number), mark.begin_ns, {}};
  }
  return place;
}

void StepTimes::Finish() {
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    const ProcessMetadata& known = trace_.processes()[i].known;
    process.ends.insert(known.step_ends.begin(), known.step_ends.end());
    const StepMark& last = known.last_steps.at(known.steps_by);
    if (known.steps_by != StepKind::kTag && last.number > 1) process.ends.try_emplace(last.number - 1, last.begin_ns);
    for (auto at = process.steps.begin(); at != process.steps.end(); ++at) {
      const auto next = std::next(at);
      ProgramStep& step = at->second;
      if (const auto end = process.ends.find(step.number); end != process.ends.end()) {
        step.end_ns = end->second;
      } else if (next != process.steps.end() && next->first == step.number + 1) {
        step.end_ns = next->second.begin_ns;
      } else if (known.steps_by == StepKind::kTag && next == process.steps.end()) {
        // Its mark moves when the tag goes.
        step.end_ns = last.number == step.number && last.begin_ns > step.begin_ns ? last.begin_ns : process.last_ns;
      }
      // The clocks of calls and of steps may differ a little.
      if (step.end_ns.has_value()) step.end_ns = std::max(*step.end_ns, step.begin_ns);
    }
    process.in_order.clear();
    for (const auto& [number, step] : process.steps) process.in_order.push_back(&step);
  }
}

const std::map<uint64_t, ProgramStep>& StepTimes::Of(uint32_t process) const {
  static const std::map<uint64_t, ProgramStep> none;
  return process < processes_.size() ? processes_[process].steps : none;
}

const ProgramStep* StepTimes::At(uint32_t process, int64_t time_ns) const {
  if (process >= processes_.size()) return nullptr;
  const std::vector<const ProgramStep*>& steps = processes_[process].in_order;
  // Steps begin in the order of their numbers.
  const auto after = std::partition_point(steps.begin(), steps.end(),
                                          [time_ns](const ProgramStep* step) { return step->begin_ns <= time_ns; });
  if (after == steps.begin()) return nullptr;
  const ProgramStep& step = **std::prev(after);
  return step.end_ns.has_value() && time_ns >= *step.end_ns ? nullptr : &step;
}

StepSummary SummarizeSteps(const std::vector<int64_t>& wall_ns) {
  StepSummary summary;
  summary.steps = wall_ns.size();
  if (wall_ns.empty()) return summary;
  const auto percentile = [](const std::vector<int64_t>& sorted, double percent) {
    const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()));
    return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
  };
  std::vector<int64_t> sorted = wall_ns;
  std::sort(sorted.begin(), sorted.end());
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  summary.mean_ns = static_cast<int64_t>(sum / static_cast<double>(sorted.size()));
  summary.p50_ns = percentile(sorted, 50);
  summary.p90_ns = percentile(sorted, 90);
  summary.p99_ns = percentile(sorted, 99);
  std::vector<int64_t> deviations;
  for (const int64_t ns : sorted) deviations.push_back(std::abs(ns - summary.p50_ns));
  std::sort(deviations.begin(), deviations.end());
  // A damaged log may have steps of many years.
  const auto p50_ns = static_cast<double>(summary.p50_ns);
  const double least = p50_ns + std::max(p50_ns / 2, 6 * static_cast<double>(percentile(deviations, 50)));
  for (size_t i = 0; i < wall_ns.size(); ++i) {
    if (static_cast<double>(wall_ns[i]) > least) summary.odd.push_back(i);
  }
  return summary;
}

}  // namespace torchtrace
