#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dialects/scan/scan.h"
#include "serialize/base/matching.h"
#include "yaml-cpp/yaml.h"

namespace torchtrace {
namespace {

bool Fits(std::string_view pattern, std::string_view name) {
  if (pattern.find_first_of("*?[") != std::string_view::npos) return GlobMatch(pattern, name);
  return name.substr(0, pattern.size()) == pattern && (name.size() == pattern.size() || name[pattern.size()] == '.');
}

}  // namespace

absl::Status ApiRules::Add(std::string_view text, const std::string& name) {
  const auto wrong = [&name](const YAML::Mark& mark, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(name, ":", mark.line + 1, ": ", what));
  };
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    for (const auto& section : root) {
      const std::string& kind = section.first.Scalar();
      const bool keep = kind == "keep";
      if (!keep && kind != "unsafe" && kind != "noise") {
        return wrong(section.first.Mark(), absl::StrCat("expected unsafe, noise or keep, not ", kind));
      }
      for (const YAML::Node& item : section.second) {
        Rule rule;
        rule.keep = keep;
        bool has_reason = false;
        for (const auto& pair : item) {
          const std::string& key = pair.first.Scalar();
          if (key == "name") rule.pattern = pair.second.Scalar();
          if (key == "reason") has_reason = !pair.second.Scalar().empty();
          if (key != "kinds") continue;
          for (const YAML::Node& each : pair.second) rule.kinds.push_back(each.Scalar());
        }
        if (rule.pattern.empty() || !has_reason) {
          return wrong(item.Mark(), "expected {name: NAME, reason: WHY}, kinds: [...] if need be");
        }
        (kind == "unsafe" ? unsafe_ : noise_).push_back(std::move(rule));
      }
    }
  } catch (const YAML::Exception& error) {
    return wrong(error.mark, absl::StrCat("is not YAML: ", error.msg));
  }
  return absl::OkStatus();
}

const ApiRules::Rule* ApiRules::Find(const std::vector<Rule>& rules, const ApiEntry& entry) {
  const Rule* best = nullptr;
  for (const Rule& rule : rules) {
    if (best != nullptr && best->pattern.size() >= rule.pattern.size()) continue;
    const bool of_kind =
        rule.kinds.empty() || std::find(rule.kinds.begin(), rule.kinds.end(), entry.kind) != rule.kinds.end();
    if (of_kind && Fits(rule.pattern, entry.name)) best = &rule;
  }
  return best;
}

void ApiRules::DropUnsafe(ApiList* list) const {
  const auto unsafe = [this](const ApiEntry& entry) { return Find(unsafe_, entry) != nullptr; };
  list->apis.erase(std::remove_if(list->apis.begin(), list->apis.end(), unsafe), list->apis.end());
}

ApiList ApiRules::Default(const ApiList& full) const {
  ApiList list;
  list.library = full.library;
  list.version = full.version;
  for (const ApiEntry& entry : full.apis) {
    if (!entry.is_public) continue;
    const Rule* const rule = Find(noise_, entry);
    if (rule != nullptr && !rule->keep) continue;
    ApiEntry& kept = list.apis.emplace_back(entry);
    kept.is_public = false;  // they all are
    kept.elsewhere.clear();
  }
  return list;
}

}  // namespace torchtrace
