#include "tracer/record/recording_options.h"

#include <algorithm>
#include <climits>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/base/matching.h"
#include "serialize/model/levels.h"

namespace torchtrace {
namespace {

using Json = nlohmann::json;

// The members by name, for both reading and writing.
template <typename Options, typename Visit>
void ForEachMember(Options& options, const Visit& visit) {
  visit("dialect", options.dialect);
  visit("untested_torch", options.untested_torch);
  visit("levels", options.levels);
  visit("include", options.include);
  visit("exclude", options.exclude);
  visit("groups", options.groups);
  visit("include_getters", options.include_getters);
  visit("start_paused", options.start_paused);
  visit("outputs", options.outputs);
  visit("ids", options.ids);
  visit("int_ranges", options.int_ranges);
  visit("values", options.values);
  visit("numbers", options.numbers);
  visit("memory", options.memory);
  visit("stop_on_nan", options.stop_on_nan);
  visit("device_times", options.device_times);
  visit("skip", options.skip);
  visit("duration_ns", options.duration_ns);
  visit("first", options.first);
  visit("sample", options.sample);
  visit("max_calls", options.max_calls);
  visit("step_on", options.step_on);
  visit("steps", options.steps);
  visit("max_steps", options.max_steps);
  visit("max_size", options.max_size);
  visit("stacks", options.stacks);
  visit("stack_format", options.stack_format);
  visit("api_list", options.api_list);
  visit("libraries", options.libraries);
  visit("disable_torch_api_list", options.disable_torch_api_list);
  visit("outermost", options.outermost);
  visit("apis", options.apis);
  visit("default_apis", options.default_apis);
  visit("frames", options.frames);
  visit("frame_include", options.frame_include);
  visit("frame_exclude", options.frame_exclude);
  visit("frame_depth", options.frame_depth);
  visit("formats", options.formats);
  visit("render_limit", options.render_limit);
  visit("merge_output", options.merge_output);
  visit("force", options.force);
  visit("readable", options.readable);
  visit("quiet", options.quiet);
}

// Each stores a value of its type, or returns the expected type.
const char* Read(const Json& json, bool* value) {
  if (!json.is_boolean()) return "true or false";
  *value = json.get<bool>();
  return nullptr;
}

const char* Read(const Json& json, std::string* value) {
  // Python and the system take null-terminated strings.
  if (!json.is_string() || json.get_ref<const std::string&>().find('\0') != std::string::npos) {
    return "a text without null characters";
  }
  *value = json.get<std::string>();
  return nullptr;
}

const char* Read(const Json& json, uint64_t* value) {
  if (!json.is_number_unsigned()) return "a number";
  *value = json.get<uint64_t>();
  return nullptr;
}

const char* Read(const Json& json, double* value) {
  if (!json.is_number() || !(json.get<double>() > 0 && json.get<double>() <= 1)) return "a number above 0, up to 1";
  *value = json.get<double>();
  return nullptr;
}

const char* Read(const Json& json, std::optional<uint64_t>* value) {
  if (!json.is_number_unsigned() && !json.is_null()) return "a number of calls or null";
  *value = json.is_null() ? std::nullopt : std::optional(json.get<uint64_t>());
  return nullptr;
}

// One of an enum's values by its name.
template <typename Which>
const char* ReadNamed(const Json& json, const char* (*name_of)(Which), std::initializer_list<Which> all,
                      const char* expected, Which* value) {
  const auto found = std::find_if(all.begin(), all.end(), [&](Which which) { return json == name_of(which); });
  if (found == all.end()) return expected;
  *value = *found;
  return nullptr;
}

const char* Read(const Json& json, WhichCalls* value) {
  return ReadNamed(json, WhichCallsName, {WhichCalls::kNone, WhichCalls::kFirst, WhichCalls::kAll},
                   "\"first\", \"all\" or \"\"", value);
}

const char* Read(const Json& json, WhichNumbers* value) {
  return ReadNamed(json, WhichNumbersName, {WhichNumbers::kNone, WhichNumbers::kResults, WhichNumbers::kAll},
                   "\"results\", \"all\" or \"\"", value);
}

const char* Read(const Json& json, std::vector<std::string>* value) {
  if (!json.is_array() || !std::all_of(json.begin(), json.end(), [](const Json& item) { return item.is_string(); })) {
    return "a list of texts";
  }
  *value = json.get<std::vector<std::string>>();
  return nullptr;
}

const char* Read(const Json& json, std::vector<int>* value) {
  const auto is_level = [](const Json& item) { return item.is_number_unsigned() && item.get<uint64_t>() <= INT_MAX; };
  if (!json.is_array() || !std::all_of(json.begin(), json.end(), is_level)) return "a list of numbers";
  *value = json.get<std::vector<int>>();
  return nullptr;
}

template <typename T>
Json ToJson(const T& value) {
  return value;
}

Json ToJson(WhichCalls value) { return WhichCallsName(value); }
Json ToJson(WhichNumbers value) { return WhichNumbersName(value); }

Json ToJson(const std::optional<uint64_t>& value) { return value.has_value() ? Json(*value) : Json(); }

}  // namespace

const char* WhichCallsName(WhichCalls calls) {
  return calls == WhichCalls::kNone ? "" : calls == WhichCalls::kFirst ? "first" : "all";
}

const char* WhichNumbersName(WhichNumbers numbers) {
  return numbers == WhichNumbers::kNone ? "" : numbers == WhichNumbers::kResults ? "results" : "all";
}

bool RecordingOptions::traces_python_frames() const {
  return std::find(levels.begin(), levels.end(), kFrameLevel) != levels.end() && frames != "modules";
}

bool RecordingOptions::traces_script() const {
  return std::find(libraries.begin(), libraries.end(), kScriptLibrary) != libraries.end();
}

std::string FormatRecordingOptions(const RecordingOptions& options) {
  Json json = Json::object();
  ForEachMember(options, [&](const char* name, const auto& value) { json[name] = ToJson(value); });
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

void ResolveImplied(RecordingOptions* options) {
  if (options->stop_on_nan) options->numbers = WhichNumbers::kAll;
  if (options->numbers == WhichNumbers::kNone) return;
  options->outputs = true;
  options->ids = true;
}

absl::Status CheckStepOn(const std::string& step_on) {
  for (const char* const known : {kStepOnAuto, kStepOnOptimizer, kStepOnForward}) {
    if (step_on == known) return absl::OkStatus();
  }
  if (step_on.starts_with(absl::StrCat(kScriptLibrary, "."))) {
    return absl::InvalidArgumentError(absl::StrCat("no step can end with ", step_on,
                                                   ", a function of the program itself: call "
                                                   "torchtrace.annotate(step=N) there"));
  }
  const size_t dot = step_on.find('.');
  if (dot != std::string::npos && dot != 0 && dot + 1 != step_on.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", step_on, "' is not auto, optimizer, forward or the name of an API, package.name"));
}

absl::Status CheckSteps(const std::string& steps) {
  if (steps.find('@') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("\"", steps, "\" is not a list of steps, 7 or 1,10-12"));
  }
  return steps.empty() ? absl::OkStatus() : NumberSet::Parse(steps).status();
}

absl::Status CheckRecordingOptions(const RecordingOptions& options) {
  if (options.stop_on_nan &&
      std::find(options.levels.begin(), options.levels.end(), kDispatchLevel) == options.levels.end()) {
    return absl::InvalidArgumentError("stop-on-nan stops at operators, which level 2 records: add 2 to the levels");
  }
  if (absl::Status status = CheckStepOn(options.step_on); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("step-on: ", std::string(status.message())));
  }
  if (absl::Status status = CheckSteps(options.steps); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("steps: ", std::string(status.message())));
  }
  if (options.max_size != 0 && options.memory) {
    return absl::InvalidArgumentError(
        "max-size can't be combined with memory: who made memory is unknown of calls that are only counted");
  }
  if (options.max_size == 0 || (!options.outermost && options.frame_depth == 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("max-size can't be combined with ",
                                                 options.outermost ? "outermost" : "frame-depth",
                                                 ": what is inside of calls that are only counted is unknown"));
}

absl::StatusOr<RecordingOptions> ParseRecordingOptions(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("the options of a recording are not a JSON object");
  RecordingOptions options;
  absl::Status status;
  ForEachMember(options, [&](const char* name, auto& value) {
    const auto found = json.find(name);
    if (found == json.end()) return;
    if (const char* const expected = Read(*found, &value); expected != nullptr && status.ok()) {
      status = absl::InvalidArgumentError(absl::StrCat("the recording option ", name, " must be ", expected));
    }
    json.erase(found);
  });
  if (!status.ok()) return status;
  if (!json.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("a recording has no option \"", json.begin().key(), "\""));
  }
  ResolveImplied(&options);
  return options;
}

}  // namespace torchtrace
