#include "serialize/reports/stats_places.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/matching.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/reports/module_owners.h"
#include "serialize/trace/parsed_tags.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

constexpr PlaceId kUnknown = kNoPlace;

// Caches a place for each small number.
class Memo {
 public:
  template <typename Find>
  PlaceId Get(size_t number, const Find& find) {
    if (number >= known_.size()) known_.resize(number + 1, kUnknown);
    if (known_[number] == kUnknown) known_[number] = find();
    return known_[number];
  }

 private:
  std::vector<PlaceId> known_;
};

}  // namespace

std::function<PlacedCall(const CallRecord&, PlaceId)> StatsPlaces::Of(size_t trace) {
  switch (grouping_.by) {
    case StatsBy::kLine:
      return OfLines(trace);
    case StatsBy::kModule:
      return OfModules(trace);
    case StatsBy::kStep:
      return OfSteps(trace);
    case StatsBy::kTag:
      return OfTags(trace);
    default:
      return OfProcesses(trace);
  }
}

absl::Status StatsPlaces::Finish() {
  for (const PlaceOfThread& thread : threads_) NameThread(thread);
  AddWalls();
  SeveralModels several_models;
  for (const StatsPlace& place : places_) several_models.Add(place.model);
  for (StatsPlace& place : places_) {
    if (!several_models || place.model.empty()) continue;
    place.text = absl::StrCat(place.model, ".", place.text);
    place.labels[0] = absl::StrCat(place.model, ".", place.labels[0].value.get<std::string>());
  }
  // A single row for calls without a place is useless.
  if (places_.size() > size_t{nowhere_.has_value()} + size_t{optimizer_.has_value()}) return absl::OkStatus();
  const std::string who = traces_.size() == 1 ? traces_[0].name + " has" : std::string("the traces have");
  if (grouping_.by == StatsBy::kModule) {
    return NothingLabelled(LabelBy::kModule, who);
  }
  if (grouping_.by == StatsBy::kStep) {
    const auto knows_why = [](const StatsTrace& each) { return !WhyNotSeen(*each.trace, "steps").empty(); };
    const auto at = std::find_if(traces_.begin(), traces_.end(), knows_why);
    return absl::InvalidArgumentError(NoSteps(who, at == traces_.end() ? *traces_[0].trace : *at->trace));
  }
  if (grouping_.by == StatsBy::kTag) {
    const std::vector<std::string> others(other_tags_.begin(), other_tags_.end());
    return absl::InvalidArgumentError(
        absl::StrCat(who, " no calls with a tag ", FormatApi(grouping_.tag), DidYouMean(grouping_.tag, others),
                     others.empty() ? ": torchtrace.annotate(NAME=VALUE) sets one in the program"
                                    : absl::StrCat(" (known: ", absl::StrJoin(others, ", "), ")")));
  }
  return absl::OkStatus();
}

PlaceId StatsPlaces::Number(StatsPlace place) {
  std::string key;
  for (const ReportCell& cell : place.labels) absl::StrAppend(&key, DumpJson(cell.value), ",");
  key += place.model;
  const auto [at, fresh] = numbers_.try_emplace(std::move(key), static_cast<PlaceId>(places_.size()));
  if (fresh) places_.push_back(std::move(place));
  return at->second;
}

PlaceId StatsPlaces::Nowhere() {
  if (!nowhere_.has_value()) {
    const bool line = grouping_.by == StatsBy::kLine, module = grouping_.by == StatsBy::kModule;
    StatsPlace place;
    place.labels.resize(line ? 4 : module || grouping_.by == StatsBy::kStep ? 2 : 1);
    place.text = line                             ? "(no stack)"
                 : module                         ? "(no module)"
                 : grouping_.by == StatsBy::kStep ? "(no steps)"
                                                  : "(no tag)";
    nowhere_ = Number(std::move(place));
  }
  return *nowhere_;
}

PlaceId StatsPlaces::Optimizer() {
  if (!optimizer_.has_value()) {
    StatsPlace place;
    place.labels = {ReportCell("optimizer"), ReportCell()};
    place.text = "optimizer";
    place.optimizer = true;
    optimizer_ = Number(std::move(place));
  }
  return *optimizer_;
}

StatsPlace StatsPlaces::OfProcess(size_t trace, const CallRecord& call) const {
  const ProcessInfo& process = traces_[trace].trace->processes()[call.process];
  StatsPlace place;
  if (grouping_.by == StatsBy::kRank || grouping_.by == StatsBy::kLabel) {
    ReportCell value(nullptr, "none");
    if (grouping_.by == StatsBy::kLabel) {
      if (!process.known.label.empty()) value = ApiCell(process.known.label);
    } else if (process.known.ranked.rank.has_value()) {
      value = *process.known.ranked.rank;
      place.number = static_cast<double>(*process.known.ranked.rank);
    }
    place.text = value.text.has_value() ? *value.text : value.value.dump();
    place.labels.push_back(std::move(value));
    return place;
  }
  const std::string name = ProcessName(process);
  if (traces_.size() > 1) {
    place.labels.emplace_back(traces_[trace].name);
    absl::StrAppend(&place.text, traces_[trace].name, " ");
  }
  absl::StrAppend(&place.text, name);
  place.labels.emplace_back(name);
  place.labels.emplace_back(process.path);
  if (grouping_.by == StatsBy::kProcess) {
    place.labels.emplace_back(DescribeEnd(process));
  } else {
    const bool known = call.thread != kNoThread;
    place.labels.push_back(known ? ordered_json(call.thread) : ordered_json());
    absl::StrAppend(&place.text, known ? absl::StrCat(" thread ", call.thread) : " unknown threads");
  }
  return place;
}

void StatsPlaces::NameThread(const PlaceOfThread& of) {
  StatsPlace& place = places_[of.place];
  const ThreadInfo* const thread = FindThread(traces_[of.trace].trace->processes()[of.process], of.thread);
  place.labels.emplace_back(thread == nullptr ? ordered_json() : ordered_json(thread->os_id));
  place.labels.emplace_back(thread == nullptr ? "" : thread->name);
  if (thread != nullptr && !thread->name.empty()) absl::StrAppend(&place.text, " ", FormatApi(thread->name));
}

std::function<PlacedCall(const CallRecord&, PlaceId)> StatsPlaces::OfProcesses(size_t trace) {
  auto known = std::make_shared<absl::flat_hash_map<std::pair<uint32_t, uint32_t>, PlaceId>>();
  return [this, trace, known](const CallRecord& call, PlaceId) {
    const auto [at, fresh] = known->try_emplace({call.process, call.thread});
    if (!fresh) return at->second;
    const size_t places = places_.size();
    at->second = Number(OfProcess(trace, call));
    if (grouping_.by == StatsBy::kThread && places_.size() > places) {
      threads_.push_back({at->second, trace, call.process, call.thread});
    }
    return at->second;
  };
}

std::function<PlacedCall(const CallRecord&, PlaceId)> StatsPlaces::OfLines(size_t trace) {
  const Trace* const of = traces_[trace].trace;
  auto text = std::make_shared<StackText>(*of);
  auto known = std::make_shared<Memo>();
  return [this, of, text, known](const CallRecord& call, PlaceId) {
    if (call.stack == kNoStack) return Nowhere();
    const LineId line = of->stacks().calling_line(call.stack);
    return known->Get(line, [&] {
      const StackPlace& at = of->stacks().line(line);
      const StackCode& code = of->stacks().code(at.code);
      StatsPlace place;
      place.labels = {short_files_ ? text->File(code.file) : std::string(code.file), at.line,
                      std::string(code.function), std::string(code.module)};
      place.text = text->Line(line);
      return Number(std::move(place));
    });
  };
}

std::function<PlacedCall(const CallRecord&, PlaceId)> StatsPlaces::OfModules(size_t trace) {
  const Trace* const of = traces_[trace].trace;
  const auto place_of_module = [this, of](ConfigId config) {
    const ModuleLabel module = ModuleLabelOf(of->identity(config));
    if (module.empty()) return kNoPlace;
    StatsPlace place;
    place.text = module.Text();
    place.model = module.model;
    place.labels = {module.path, std::string(ReadConfigHead(of->identity(config)).api)};
    return Number(std::move(place));
  };
  auto owners = std::make_shared<ModuleOwners>(*of, ModuleOwners::Places{.module = place_of_module,
                                                                         .optimizer = [this] { return Optimizer(); },
                                                                         .nowhere = [this] { return Nowhere(); }});
  owners_[trace] = owners;
  return [owners](const CallRecord& call, PlaceId) { return owners->Of(call); };
}

std::vector<std::string> StatsPlaces::Notes() const {
  std::vector<std::string> notes;
  for (const auto& [trace, owners] : owners_) {
    if (!owners->lacks_backward()) continue;
    notes.push_back(absl::StrCat(traces_[trace].name,
                                 ": what is in backward passes was not recorded (level 2 or 4 does that): they count "
                                 "for (no module)"));
  }
  return notes;
}

std::function<PlacedCall(const CallRecord&, PlaceId)> StatsPlaces::OfSteps(size_t trace) {
  steps_.push_back(std::make_unique<StepsOfTrace>(StepsOfTrace{trace, StepTimes(traces_[trace].trace), {}, {}}));
  StepsOfTrace* const steps = steps_.back().get();
  const auto aside = [this](const char* text, double number) {
    StatsPlace place;
    place.labels.emplace_back(nullptr);
    place.labels.emplace_back(text);
    place.text = absl::StrCat("(", text, ")");
    place.number = number;
    return Number(std::move(place));
  };
  return [this, steps, aside](const CallRecord& call, PlaceId) -> PlacedCall {
    const StepPlace at = steps->times.Add(call);
    switch (at.kind) {
      case StepPlace::kNone:
        return Nowhere();
      case StepPlace::kBefore:
        return aside("before the first", 0);
      case StepPlace::kBetween:
        return aside("between steps", HUGE_VAL);
      case StepPlace::kAfter:
        return aside("after the last", HUGE_VAL);
      case StepPlace::kInStep:
        break;
    }
    const auto [known, fresh] = steps->places.try_emplace({call.process, at.number});
    if (fresh) {
      const ProgramStep& step = steps->times.Of(call.process).at(at.number);
      known->second = NumberStep(step, steps->named[{call.process, step.name}]++);
    }
    return known->second;
  };
}

// Steps of several processes are one row if they have one name, whatever their numbers: a resumed process may begin
// with another one. A process may have a name several times.
PlaceId StatsPlaces::NumberStep(const ProgramStep& step, size_t of_its_name) {
  const auto number = static_cast<double>(step.number);
  const auto [at, fresh] = step_places_.try_emplace({step.name, of_its_name}, static_cast<PlaceId>(places_.size()));
  if (fresh) {
    StatsPlace& place = places_.emplace_back();
    place.labels = {step.number, step.name};
    place.text = PlainLine(step.name);
    place.number = number;
  } else if (StatsPlace& place = places_[at->second]; number < place.number) {
    place.labels[0] = step.number;
    place.number = number;
  }
  return at->second;
}

std::optional<int64_t> StatsPlaces::StepsOfTrace::WallOf(uint32_t process, uint64_t number) const {
  const ProgramStep& step = times.Of(process).at(number);
  if (!step.end_ns.has_value()) return std::nullopt;
  return *step.end_ns - step.begin_ns;
}

void StatsPlaces::AddWalls() {
  for (const std::unique_ptr<StepsOfTrace>& steps : steps_) {
    steps->times.Finish();
    for (const auto& [at, id] : steps->places) {
      const std::optional<int64_t> wall_ns = steps->WallOf(at.first, at.second);
      if (!wall_ns.has_value()) continue;
      StatsPlace& place = places_[id];
      place.wall_ns = std::max(place.wall_ns.value_or(0), *wall_ns);
      int64_t& of_trace = place.walls_ns[steps->trace];
      of_trace = std::max(of_trace, *wall_ns);
    }
  }
}

StatsPlaces::StepWalls StatsPlaces::WallsOfSteps(uint64_t skip_steps) const {
  StepWalls walls;
  for (const std::unique_ptr<StepsOfTrace>& steps : steps_) {
    std::vector<int64_t> ns;  // of one process
    std::vector<PlaceId> ids;
    const auto find_long = [&] {
      const StepSummary summary = SummarizeSteps(ns);
      for (const size_t i : summary.odd) {
        const double times = static_cast<double>(ns[i]) / static_cast<double>(std::max<int64_t>(summary.p50_ns, 1));
        StepWalls::Long& most = walls.long_ones.try_emplace(ids[i], StepWalls::Long{}).first->second;
        if (times > most.times) most = {ns[i], times};
      }
      ns.clear();
      ids.clear();
    };
    std::optional<uint32_t> process;
    for (const auto& [at, id] : steps->places) {
      if (std::exchange(process, at.first) != at.first) find_long();
      const std::optional<int64_t> wall_ns = steps->WallOf(at.first, at.second);
      if (!wall_ns.has_value() || at.second <= skip_steps) continue;
      ns.push_back(*wall_ns);
      ids.push_back(id);
      int64_t& of_row = walls.ns[id];
      of_row = std::max(of_row, *wall_ns);
    }
    find_long();
  }
  return walls;
}

std::function<PlacedCall(const CallRecord&, PlaceId)> StatsPlaces::OfTags(size_t trace) {
  auto tags = std::make_shared<ParsedTags>(traces_[trace].trace);
  auto known = std::make_shared<Memo>();
  auto of_objects = std::make_shared<absl::flat_hash_map<const nlohmann::json*, PlaceId>>();
  return [this, tags, known, of_objects](const CallRecord& call, PlaceId) {
    return known->Get(call.tags, [&] {
      const nlohmann::json* const object = tags->Get(call.tags);
      if (object == nullptr) return Nowhere();
      const auto [place_of, fresh] = of_objects->try_emplace(object, kUnknown);
      if (!fresh) return place_of->second;
      const auto value = object->find(grouping_.tag);
      if (value == object->end()) {
        for (const auto& [name, other] : object->items()) other_tags_.insert(name);
        return place_of->second = Nowhere();
      }
      StatsPlace place;
      place.labels.emplace_back(ordered_json(*value));
      place.text = value->is_string() ? FormatApi(value->get_ref<const std::string&>()) : DumpJson(*value);
      if (value->is_number()) place.number = value->get<double>();
      return place_of->second = Number(std::move(place));
    });
  };
}

}  // namespace torchtrace
