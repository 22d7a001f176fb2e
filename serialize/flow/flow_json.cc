#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "serialize/flow/flow.h"
#include "serialize/forms/forms.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

bool IsTensor(const ordered_json& type) {
  const auto* const text = type.get_ptr<const std::string*>();
  return text != nullptr && text->ends_with(".Tensor");
}

// Numbers tensors in the order in which positions are counted.
class Numbering {
 public:
  explicit Numbering(const std::vector<FlowValue>& values) : values_(values) {}

  void Number(ordered_json* json) {
    if (json->is_array()) return NumberEach(json);
    if (!json->is_object()) return;
    const auto type = json->find("type");
    if (type == json->end()) return;
    if (IsTensor(*type)) {
      // An undefined tensor has no position.
      if (!json->contains("defined") && next_ < values_.size()) (*json)["id"] = values_[next_++];
      return;
    }
    const auto value = json->find("value");
    if (value == json->end()) return;
    // A dict may have members with any names.
    if (value->is_object()) return NumberEach(&*value);
    Number(&*value);
  }
  void NumberEach(ordered_json* json) {
    for (ordered_json& item : *json) Number(&item);
  }

 private:
  const std::vector<FlowValue>& values_;
  size_t next_ = 0;
};

ordered_json SourceToJson(const FlowSource& source, const std::string& api, std::vector<std::string_view>* contents) {
  // Format it as an argument, because arguments have facets.
  Config config;
  config.api = api;
  config.args = {source.tensor};
  TensorFacet facet = source.facet;
  facet.tensor = 0;
  ordered_json json = ConfigToJson(config, {facet})["args"][0];
  json["id"] = source.value;
  json["kind"] = source.kind == FlowSource::kInput ? "input" : source.kind == FlowSource::kStorage ? "storage" : "view";
  if (source.kind == FlowSource::kView) {
    json["base"] = source.base;
    json["shift"] = source.shift;
    if (source.same) json["same"] = true;
    if (source.other_dtype) json["other_dtype"] = true;
  }
  if (source.memory) json["memory"] = true;
  if (source.unseen) json["unseen"] = true;
  AddNote({.range = source.note.range, .contents = contents != nullptr ? source.note.contents : std::nullopt}, &json,
          contents);
  return json;
}

}  // namespace

ordered_json FlowStepToJson(const Trace& trace, const FlowStep& step, std::vector<std::string_view>* contents) {
  ordered_json json = {{"call", step.call}, {"thread", step.thread}};
  ordered_json call = ConfigToJson(*step.config, *step.facets);
  Numbering arguments(step.arguments);
  arguments.NumberEach(&call["args"]);
  arguments.NumberEach(&call["kwargs"]);
  json.update(call);
  json["sources"] = ordered_json::array();
  for (const FlowSource& source : step.sources) {
    ordered_json& one = json["sources"].emplace_back(SourceToJson(source, step.config->api, contents));
    if (source.maker != kNoCall && source.maker_config != kLostId) {
      const ConfigHead head = ReadConfigHead(trace.identity(source.maker_config));
      one["maker"] = {{"call", source.maker}, {"api", FormatApi(head.api)}};
    }
  }
  if (step.result_known) {
    ordered_json& result = json["result"] = ordered_json::array();
    for (const Value& value : step.result) result.push_back(ValueToJson(value));
    Numbering(step.results).NumberEach(&result);
    if (OnlyTells(step)) json["tells"] = true;
    if (contents != nullptr) json["result_notes"] = NotesToJson(*step.result_notes, contents);
  }
  if (!step.gradients) json["gradients"] = false;
  if (IsMark(step.config->api)) json["mark"] = true;
  if (step.outcome == CallOutcome::kRaised) json["raised"] = std::string(step.exception);
  json["released"] = step.released;
  ordered_json& modules = json["modules"] = ordered_json::array();
  for (const FlowModule& module : step.modules) {
    const Config config = ReadableConfig(trace.identity(module.config));
    ordered_json& one = modules.emplace_back(ordered_json{{"call", module.call}, {"api", FormatApi(config.api)}});
    for (const auto& [name, value] : config.kwargs) {
      if ((name == "path" || name == "model") && value.tag == ValueTag::kString) one[name] = ValueToJson(value);
    }
  }
  return json;
}

ordered_json FlowSummaryToJson(const FlowSummary& summary) {
  ordered_json results = ordered_json::array();
  for (const FlowOutcome::Result& one : summary.outcome.results) results.push_back({one.value, one.call, one.whole});
  return {{"steps", summary.steps},
          {"other_processes", summary.other_processes},
          {"never_returned", summary.never_returned},
          {"opened", summary.opened},
          {"counted", summary.counted == 0 ? "" : CountedCalls(summary.counted)},
          {"without_id", summary.without_id},
          {"without_result", summary.without_result},
          {"outcome",
           {{"results", std::move(results)}, {"asked", summary.outcome.asked}, {"others", summary.outcome.others}}}};
}

}  // namespace torchtrace
