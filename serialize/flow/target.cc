#include "serialize/flow/target.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/matching.h"
#include "serialize/base/text.h"
#include "serialize/model/levels.h"
#include "yaml-cpp/yaml.h"

namespace torchtrace {
namespace {

constexpr char kCallable[] =
#include "serialize/flow/callable_yaml.inc"
    ;

constexpr char kCallableNames[] =
#include "serialize/flow/callable_names_txt.inc"
    ;

// The lists of callable.yaml.
struct CallableLists {
  std::vector<std::string> namespaces;
  std::vector<std::pair<std::string, std::string>> refused, not_written, out_of_place;  // with the reason
};

const CallableLists& Lists() {
  static const CallableLists* const lists = [] {
    auto* const made = new CallableLists;
    const YAML::Node yaml = YAML::Load(kCallable);
    for (const YAML::Node& name : yaml["namespaces"]) made->namespaces.push_back(name.as<std::string>());
    const auto with_reasons = [&yaml](const char* list, auto* rows) {
      for (const YAML::Node& row : yaml[list]) {
        rows->emplace_back(row["name"].as<std::string>(), row["why"].as<std::string>());
      }
    };
    with_reasons("refused", &made->refused);
    with_reasons("not written", &made->not_written);
    with_reasons("out of place", &made->out_of_place);
    return made;
  }();
  return *lists;
}

// Whether callable_names.txt contains the name.
bool IsKnownName(std::string_view api) {
  static const auto* const names = [] {
    auto* const made = new absl::flat_hash_set<std::string_view>;
    for (std::string_view rest = kCallableNames; !rest.empty();) {
      const size_t end = rest.find('\n');
      if (!rest.starts_with('#')) made->insert(rest.substr(0, end));
      rest.remove_prefix(std::min(rest.size(), end == std::string_view::npos ? end : end + 1));
    }
    return made;
  }();
  return names->contains(api);
}

constexpr std::string_view kKeywords[] = {"False",  "None",   "True",    "and",      "as",       "assert", "async",
                                          "await",  "break",  "class",   "continue", "def",      "del",    "elif",
                                          "else",   "except", "finally", "for",      "from",     "global", "if",
                                          "import", "in",     "is",      "lambda",   "nonlocal", "not",    "or",
                                          "pass",   "raise",  "return",  "try",      "while",    "with",   "yield"};

template <typename Range>
bool Has(const Range& range, std::string_view text) {
  return std::find(std::begin(range), std::end(range), text) != std::end(range);
}

// Whether the value was recorded in full.
bool IsWhole(const Value& value) {
  const uint64_t pairs = value.tag == ValueTag::kDict ? 2 : 1;
  const bool text = value.tag == ValueTag::kString || value.tag == ValueTag::kBytes;
  if (value.tag == ValueTag::kObject || value.tag == ValueTag::kDeep) return false;
  if (text ? value.whole > value.text.size() : IsContainer(value.tag) && value.whole > value.items.size() / pairs) {
    return false;
  }
  return std::all_of(value.items.begin(), value.items.end(), IsWhole);
}

// Collects the floating-point tensors; sets `converts` if there is a dtype too.
void AddFloats(const Value& value, std::vector<const Value*>* floats, bool* converts) {
  if (value.tag == ValueTag::kTensor && (value.text.starts_with("float") || value.text == "bfloat16")) {
    floats->push_back(&value);
  }
  *converts |= value.tag == ValueTag::kDtype;
  for (const Value& item : value.items) AddFloats(item, floats, converts);
}

CallTarget Refused(std::string why) { return {CallTarget::kRefused, std::move(why)}; }

// `add.Tensor` of a namespace. A missing overload becomes `absent`, or nothing if the operator chooses it.
CallTarget Operator(std::string_view space, std::string_view name, const char* absent) {
  std::string overload = absent;
  if (const size_t dot = name.find('.'); dot != std::string_view::npos) {
    overload = name.substr(dot + 1);
    name = name.substr(0, dot);
    if (!IsWord(overload)) return Refused("it is no name of an operator");
  }
  if (!Has(Lists().namespaces, space)) return Refused("operators of its namespace may be anything");
  if (!IsIdentifier(name)) return Refused("it is no name of an operator");
  return {CallTarget::kOverload, absl::StrCat("torch.ops.", std::string(space), ".", std::string(name),
                                              overload.empty() ? "" : ".", overload)};
}

}  // namespace

std::string_view WhyOutOfPlace(std::string_view api) {
  for (const auto& [glob, why] : Lists().out_of_place) {
    if (GlobMatch(glob, api)) return why;
  }
  return "";
}

std::string_view CallableNames() { return kCallable; }

bool IsIdentifier(std::string_view text) {
  // __debug__ can't be assigned to, so it can't name an argument either.
  return IsWord(text) && !Has(kKeywords, text) && text != "__debug__";
}

bool CanCall(const Config& config) {
  return TargetOf(config.api, config.level).kind != CallTarget::kRefused &&
         std::all_of(config.args.begin(), config.args.end(), IsWhole) &&
         std::all_of(config.kwargs.begin(), config.kwargs.end(), [](const auto& one) { return IsWhole(one.second); });
}

CallAutocast AutocastOf(const Config& config, const std::vector<Value>& result) {
  static constexpr std::string_view kConverts[] = {"to", "type", "type_as", "half", "bfloat16", "float"};
  if (config.level != kSetattrLevel && config.level != kFunctionLevel) return {};
  if (Has(kConverts, std::string_view(config.api).substr(config.api.rfind('.') + 1))) return {};
  std::vector<const Value*> taken, made;
  bool converts = false;
  for (const Value& value : config.args) AddFloats(value, &taken, &converts);
  for (const auto& [name, value] : config.kwargs) AddFloats(value, &taken, &converts);
  if (converts || taken.empty()) return {};
  for (const Value& value : result) AddFloats(value, &made, &converts);
  const auto all = [](const std::vector<const Value*>& tensors, std::string_view dtype) {
    return std::all_of(tensors.begin(), tensors.end(), [&](const Value* tensor) { return tensor->text == dtype; });
  };
  if (made.empty() || made[0]->device == "meta") return {};
  constexpr std::string_view kWide = "float32";
  for (const std::string_view narrow : {"float16", "bfloat16"}) {
    if ((all(taken, kWide) && all(made, narrow)) || (all(taken, narrow) && all(made, kWide))) {
      return {made[0]->device.substr(0, made[0]->device.find(':')), std::string(narrow)};
    }
  }
  return {};
}

CallTarget TargetOf(std::string_view api, int level) {
  if (level == kFrameLevel) return Refused("level 3 records functions of the program, which only the program has");
  for (const auto* list : {&Lists().refused, &Lists().not_written}) {
    for (const auto& [glob, why] : *list) {
      if (GlobMatch(glob, api)) return Refused(why);
    }
  }
  if (const size_t colons = api.find("::"); colons != std::string_view::npos) {
    return Operator(api.substr(0, colons), api.substr(colons + 2), "default");
  }
  constexpr std::string_view kOps = "torch.ops.", kTensor = "torch.Tensor.";
  if (api.starts_with(kOps)) {
    const std::string_view name = api.substr(kOps.size());
    const size_t dot = std::min(name.find('.'), name.size() - 1);
    return Operator(name.substr(0, dot), name.substr(dot + 1), "");
  }
  if (!IsKnownName(api)) return Refused("it is no API that is known to be harmless");
  if (!api.starts_with(kTensor)) return {CallTarget::kFunction, std::string(api)};
  const std::string_view member = api.substr(kTensor.size());
  const size_t dot = member.find('.');
  const std::string name(member.substr(0, dot));
  if (dot == std::string_view::npos) return {CallTarget::kMethod, name};
  return {member.substr(dot) == ".__get__" ? CallTarget::kGetter : CallTarget::kSetter, name};
}

}  // namespace torchtrace
