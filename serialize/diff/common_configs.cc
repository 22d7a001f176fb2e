#include "serialize/diff/common_configs.h"

#include <algorithm>
#include <utility>

#include "serialize/forms/text_form.h"
#include "serialize/model/readable_config.h"

namespace torchtrace {

bool DiffScope::Accepts(const ConfigHead& head) const {
  return (levels.empty() || std::find(levels.begin(), levels.end(), head.level) != levels.end()) &&
         filter.Accepts(head.api);
}

std::vector<uint32_t> CommonConfigs::Add(const Trace& trace, const DiffScope& scope) {
  std::vector<uint32_t> symbols(trace.config_count(), kLeftOut);
  for (ConfigId id = 0; id < symbols.size(); ++id) {
    const std::string_view identity = trace.identity(id);
    if (!scope.Accepts(ReadConfigHead(identity))) continue;
    // Without facets the variant is the config.
    const VariantId variant = scope.coarsening.empty() ? configs_.Intern(identity, {})
                                                       : configs_.Intern(scope.coarsening.Apply(identity), {});
    symbols[id] = configs_.config_of(variant);
  }
  return symbols;
}

std::string CommonConfigs::Text(uint32_t symbol) const { return FormatConfig(ReadableConfig(identity(symbol))); }

FamilyMember CommonConfigs::Member(uint32_t symbol) const { return FindFamily(ReadableConfig(identity(symbol))); }

const std::vector<uint32_t>& CommonConfigs::Families() {
  if (families_.size() == size()) return families_;
  absl::flat_hash_map<std::string, uint32_t> ids;
  families_.clear();
  families_.reserve(size());
  for (uint32_t symbol = 0; symbol < size(); ++symbol) {
    const auto next = static_cast<uint32_t>(ids.size());
    std::string key = Member(symbol).key;
    key.push_back(static_cast<char>(head(symbol).level));
    families_.push_back(ids.try_emplace(std::move(key), next).first->second);
  }
  family_count_ = ids.size();
  return families_;
}

}  // namespace torchtrace
