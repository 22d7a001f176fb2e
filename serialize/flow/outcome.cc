#include "serialize/flow/outcome.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

namespace torchtrace {
namespace {

// Limits the list of fallbacks.
constexpr size_t kMostResults = 64;

bool Has(const std::vector<FlowValue>& values, FlowValue value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool HasSeveralElements(const Value& tensor) {
  if (tensor.text == "bool") return false;  // a test compares it
  for (const Dim& dim : tensor.shape) {
    if (dim != 1) return true;
  }
  return false;
}

// A module's state is not a result, even if it was written to last.
bool MakesState(std::string_view api) {
  return api.starts_with("torch.nn.") && (api.ends_with("Parameter") || api.ends_with("Buffer"));
}

}  // namespace

void OutcomeFinder::NoteTensors(const Value& value, const std::vector<FlowValue>& values, bool made, size_t* position) {
  if (value.tag == ValueTag::kTensor && *position < values.size()) {
    const auto [about, is_new] = about_.try_emplace(values[(*position)++]);
    if (is_new) about->second.made = made;
    about->second.several = HasSeveralElements(value);
  }
  for (const Value& item : value.items) NoteTensors(item, values, made, position);
}

void OutcomeFinder::Add(const FlowStep& step, const std::vector<uint64_t>& argument_storages,
                        const std::vector<uint64_t>& result_storages) {
  if (step.outcome == CallOutcome::kRaised || IsMark(step.config->api)) return;
  size_t position = 0;
  for (const Value& value : step.config->args) NoteTensors(value, step.arguments, /*made=*/false, &position);
  for (const auto& [name, value] : step.config->kwargs) {
    NoteTensors(value, step.arguments, /*made=*/false, &position);
  }
  position = 0;
  const bool made = !MakesState(step.config->api);
  for (const Value& value : step.result) NoteTensors(value, step.results, made, &position);
  for (size_t i = 0; i < step.arguments.size(); ++i) about_[step.arguments[i]].storage = argument_storages[i];
  for (size_t i = 0; i < step.results.size(); ++i) about_[step.results[i]].storage = result_storages[i];
  Step& own = steps_.emplace_back();
  own.call = step.call;
  own.tells = OnlyTells(step);
  own.writes_first =
      step.result_known && step.result.size() == 1 && step.result[0].tag == ValueTag::kNone && !step.arguments.empty();
  own.arguments = step.arguments;
  (own.tells && step.arguments.size() == 1 ? shown_ : passed_on_).insert(step.arguments.begin(), step.arguments.end());
  own.results = step.results;
}

std::vector<OutcomeFinder::End> OutcomeFinder::Ends(const std::function<bool(FlowValue)>& kept, bool kept_alone) const {
  std::vector<End> ends;
  absl::flat_hash_map<FlowValue, Use> uses;            // after the step
  absl::flat_hash_map<uint64_t, size_t> written_last;  // storages, by the last step that wrote to them
  absl::flat_hash_set<FlowValue> ended;
  const auto end = [&](FlowValue value, size_t step) {
    if (!ended.insert(value).second) return;
    const uint64_t storage = about_.at(value).storage;
    if (const auto at = written_last.find(storage); storage != 0 && at != written_last.end()) {
      step = std::max(step, at->second);
    }
    ends.push_back({value, step, kept(value), uses[value]});
  };
  for (size_t i = steps_.size(); i-- > 0;) {
    const Step& step = steps_[i];
    std::vector<FlowValue> written;
    if (step.writes_first) written.push_back(step.arguments[0]);
    const absl::flat_hash_set<FlowValue> taken(step.arguments.begin(), step.arguments.end());
    for (const FlowValue result : step.results) {
      if (taken.contains(result)) written.push_back(result);
    }
    const absl::flat_hash_set<FlowValue> is_written(written.begin(), written.end());
    // Whether its results are used for more than a test.
    bool matters = !step.tells && step.results.empty() && written.empty();
    const auto look = [&](FlowValue value) {
      const Use use = uses[value];
      matters |= use == kUsed || kept(value) || (use == kNone && !kept_alone);
    };
    for (const FlowValue result : step.results) look(result);
    for (const FlowValue value : written) {
      const About& about = about_.at(value);
      // A write to an outside tensor is visible there.
      if (!about.made) matters = true;
      look(value);
      // The write may be through a view.
      if (about.storage != 0) written_last.try_emplace(about.storage, i);
    }
    for (const FlowValue value : written) end(value, i);
    for (const FlowValue result : step.results) end(result, i);
    for (const FlowValue argument : step.arguments) {
      if (is_written.contains(argument)) continue;
      uses[argument] = std::max(uses[argument], matters ? kUsed : kAsked);
    }
  }
  // Values that no step made or wrote to are not the program's, and are left out.
  std::stable_sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.step > b.step; });
  return ends;
}

FlowOutcome::Result OutcomeFinder::ResultOf(const End& end, const std::function<bool(FlowValue)>& kept) const {
  const Step& step = steps_[end.step];
  FlowOutcome::Result result;
  result.value = end.value;
  result.call = step.call;
  const auto count = std::count_if(step.results.begin(), step.results.end(), std::cref(kept));
  // Return a whole tuple, unless the program has only this one of its tensors.
  result.whole = Has(step.results, end.value) && !(end.kept && count == 1 && step.results.size() > 1);
  return result;
}

absl::flat_hash_set<FlowValue> OutcomeFinder::MadeOf(size_t step) const {
  absl::flat_hash_set<FlowValue> taken(steps_[step].arguments.begin(), steps_[step].arguments.end());
  for (size_t i = step; i-- > 0;) {
    const std::vector<FlowValue>& results = steps_[i].results;
    if (std::any_of(results.begin(), results.end(), [&taken](FlowValue made) { return taken.contains(made); })) {
      taken.insert(steps_[i].arguments.begin(), steps_[i].arguments.end());
    }
  }
  return taken;
}

absl::flat_hash_set<FlowValue> OutcomeFinder::MadeWith(FlowValue value) const {
  absl::flat_hash_set<FlowValue> made = {value};
  for (const Step& step : steps_) {
    const std::vector<FlowValue>& taken = step.arguments;
    if (std::any_of(taken.begin(), taken.end(), [&made](FlowValue each) { return made.contains(each); })) {
      made.insert(step.results.begin(), step.results.end());
    }
  }
  return made;
}

FlowOutcome OutcomeFinder::Find(const std::function<bool(FlowValue)>& kept) const {
  FlowOutcome outcome;
  std::vector<End> all;
  for (const End& end : Ends(kept, /*kept_alone=*/true)) {
    if (end.kept && about_.at(end.value).made && end.use != kUsed) all.push_back(end);
  }
  absl::flat_hash_set<uint64_t> kept_storages;
  for (const auto& [value, about] : about_) {
    if (kept(value)) kept_storages.insert(about.storage);
  }
  const std::vector<End> ends = Ends(kept, /*kept_alone=*/false);
  absl::flat_hash_set<FlowValue> derived;
  for (const End& end : ends) {
    if (all.empty() || end.step <= all[0].step) break;
    const About& about = about_.at(end.value);
    if (end.kept || !shown_.contains(end.value) || passed_on_.contains(end.value) || !about.several ||
        kept_storages.contains(about.storage)) {
      continue;
    }
    if (derived.empty()) derived = MadeWith(all[0].value);
    if (!derived.contains(end.value)) continue;
    const absl::flat_hash_set<FlowValue> used = MadeOf(end.step);
    std::erase_if(all, [&used](const End& each) { return used.contains(each.value); });
    all.insert(all.begin(), end);
    break;
  }
  const size_t sure = all.size();
  std::vector<End> asked;
  for (const End& end : ends) {
    if (end.use == kNone || (end.use == kAsked && about_.at(end.value).several)) {
      all.push_back(end);
    } else if (end.use == kAsked) {
      asked.push_back(end);
    }
  }
  all.insert(all.end(), asked.begin(), asked.end());
  if (all.empty()) return outcome;
  for (size_t i = 0; i < all.size() && i < kMostResults; ++i) outcome.results.push_back(ResultOf(all[i], kept));
  outcome.asked = all[0].use == kAsked && sure == 0;
  // Other values that the program computed, has, and didn't use.
  absl::flat_hash_set<uint64_t> storages = {about_.at(all[0].value).storage};
  for (size_t i = 1; i < sure; ++i) {
    const Step& step = steps_[all[i].step];
    const uint64_t storage = about_.at(all[i].value).storage;
    if (all[i].step == all[0].step || storage == 0 || !storages.insert(storage).second) continue;
    if (!step.results.empty() && step.results[0] == all[i].value) outcome.others.push_back(step.call);
  }
  return outcome;
}

}  // namespace torchtrace
