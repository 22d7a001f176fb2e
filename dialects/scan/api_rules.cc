#include "dialects/scan/api_rules.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "serialize/glob.h"
#include "serialize/simple_yaml.h"

namespace torchtrace {
namespace {

bool Fits(std::string_view pattern, std::string_view name) {
  if (pattern.find_first_of("*?[") != std::string_view::npos) return GlobMatch(pattern, name);
  return name.substr(0, pattern.size()) == pattern && (name.size() == pattern.size() || name[pattern.size()] == '.');
}

}  // namespace

absl::Status ApiRules::Add(std::string_view text, const std::string& name) {
  const absl::StatusOr<SimpleYaml> root = ParseSimpleYaml(text, name);
  if (!root.ok()) return root.status();
  for (size_t i = 0; i < root->keys.size(); ++i) {
    const std::string& section = root->keys[i];
    const SimpleYaml& rules = root->items[i];
    const bool keep = section == "keep";
    if (!keep && section != "unsafe" && section != "noise") {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", rules.line, ": expected unsafe, noise or keep, not ", section));
    }
    for (const SimpleYaml& item : rules.items) {
      const SimpleYaml* const pattern = item.Find("name");
      const SimpleYaml* const reason = item.Find("reason");
      if (pattern == nullptr || pattern->scalar.empty() || reason == nullptr || reason->scalar.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ":", item.line, ": expected {name: NAME, reason: WHY}, kinds: [...] if need be"));
      }
      Rule rule{pattern->scalar, {}, keep};
      if (const SimpleYaml* const kinds = item.Find("kinds"); kinds != nullptr) {
        for (const SimpleYaml& kind : kinds->items) rule.kinds.push_back(kind.scalar);
      }
      (section == "unsafe" ? unsafe_ : noise_).push_back(std::move(rule));
    }
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
