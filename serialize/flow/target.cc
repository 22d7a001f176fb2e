#include "serialize/flow/target.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "serialize/base/matching.h"
#include "serialize/model/levels.h"
#include "yaml-cpp/yaml.h"

namespace torchtrace {
namespace {

constexpr char kCallable[] =
#include "serialize/flow/callable_yaml.inc"
    ;

// The lists of callable.yaml.
struct CallableLists {
  std::vector<std::string> namespaces;
  std::vector<std::vector<std::string>> apis;                              // the parts between dots
  std::vector<std::pair<std::string, std::string>> refused, out_of_place;  // with the reason
};

const CallableLists& Lists() {
  static const CallableLists* const lists = [] {
    auto* const made = new CallableLists;
    const YAML::Node yaml = YAML::Load(kCallable);
    for (const YAML::Node& name : yaml["namespaces"]) made->namespaces.push_back(name.as<std::string>());
    for (const YAML::Node& api : yaml["apis"]) made->apis.push_back(absl::StrSplit(api.as<std::string>(), '.'));
    const auto with_reasons = [&yaml](const char* list, auto* rows) {
      for (const YAML::Node& row : yaml[list]) {
        rows->emplace_back(row["name"].as<std::string>(), row["why"].as<std::string>());
      }
    };
    with_reasons("refused", &made->refused);
    with_reasons("out of place", &made->out_of_place);
    return made;
  }();
  return *lists;
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

bool IsWord(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// Whether all of it was described.
bool IsWhole(const Value& value) {
  const uint64_t pairs = value.tag == ValueTag::kDict ? 2 : 1;
  const bool text = value.tag == ValueTag::kString || value.tag == ValueTag::kBytes;
  if (value.tag == ValueTag::kObject || value.tag == ValueTag::kDeep) return false;
  if (text ? value.whole > value.text.size() : IsContainer(value.tag) && value.whole > value.items.size() / pairs) {
    return false;
  }
  return std::all_of(value.items.begin(), value.items.end(), IsWhole);
}

bool Fits(const std::vector<std::string>& glob, const std::vector<std::string_view>& parts) {
  return std::equal(glob.begin(), glob.end(), parts.begin(), parts.end(), GlobMatch);
}

CallTarget Refused(std::string why) { return {CallTarget::kRefused, std::move(why)}; }

// aten::add.Tensor
CallTarget Overload(std::string_view api) {
  const size_t colons = api.find("::");
  const std::string_view space = api.substr(0, colons);
  std::string_view name = api.substr(colons + 2), overload = "default";
  if (const size_t dot = name.find('.'); dot != std::string_view::npos) {
    overload = name.substr(dot + 1);
    name = name.substr(0, dot);
  }
  if (!Has(Lists().namespaces, space)) return Refused("operators of its namespace may be anything");
  if (!IsIdentifier(name) || !IsWord(overload)) return Refused("it is no name of an operator");
  return {CallTarget::kOverload,
          absl::StrCat("torch.ops.", std::string(space), ".", std::string(name), ".", std::string(overload))};
}

}  // namespace

std::string_view WhyOutOfPlace(std::string_view api) {
  for (const auto& [glob, why] : Lists().out_of_place) {
    if (GlobMatch(glob, api)) return why;
  }
  return "";
}

std::string_view CallableNames() { return kCallable; }

bool IsIdentifier(std::string_view text) { return IsWord(text) && !Has(kKeywords, text); }

bool CanCall(const Config& config) {
  return TargetOf(config.api, config.level).kind != CallTarget::kRefused &&
         std::all_of(config.args.begin(), config.args.end(), IsWhole) &&
         std::all_of(config.kwargs.begin(), config.kwargs.end(), [](const auto& one) { return IsWhole(one.second); });
}

CallTarget TargetOf(std::string_view api, int level) {
  if (level == kFrameLevel) return Refused("level 3 records functions of the program, which only the program has");
  for (const auto& [glob, why] : Lists().refused) {
    if (GlobMatch(glob, api)) return Refused(why);
  }
  if (api.find("::") != std::string_view::npos) return Overload(api);
  std::vector<std::string_view> parts;
  for (std::string_view rest = api;;) {
    const size_t dot = rest.find('.');
    parts.push_back(rest.substr(0, dot));
    if (!IsIdentifier(parts.back())) return Refused("it is no dotted name");
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  if (std::none_of(Lists().apis.begin(), Lists().apis.end(), [&](const auto& glob) { return Fits(glob, parts); })) {
    return Refused("it is no API that is known to be harmless");
  }
  if (!api.starts_with("torch.Tensor.")) return {CallTarget::kFunction, std::string(api)};
  if (parts.size() == 3) return {CallTarget::kMethod, std::string(parts[2])};
  return {parts[3] == "__get__" ? CallTarget::kGetter : CallTarget::kSetter, std::string(parts[2])};
}

}  // namespace torchtrace
