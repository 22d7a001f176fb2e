// ConfigTable numbers configurations by content: equal identities have one
// ConfigId, equal pairs of identity and facets one VariantId, both dense from 0
// in the order they come. Owns copies of the bytes; they stay where they are.
// Not thread-safe.

#ifndef TORCHTRACE_SERIALIZE_TRACE_CONFIG_TABLE_H_
#define TORCHTRACE_SERIALIZE_TRACE_CONFIG_TABLE_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace torchtrace {

// Dense from 0. A variant is a config with particular facets.
using ConfigId = uint32_t;
using VariantId = uint32_t;

class ConfigTable {
 public:
  VariantId Intern(std::string_view identity, std::string_view facets);

  size_t config_count() const { return configs_.size(); }
  size_t variant_count() const { return variants_.size(); }
  std::string_view identity(ConfigId config) const { return configs_[config].identity; }
  std::string_view facets(VariantId variant) const { return variants_[variant].facets; }
  ConfigId config_of(VariantId variant) const { return variants_[variant].config; }

 private:
  struct ConfigEntry {
    std::string_view identity;
    VariantId first_variant;
  };
  struct VariantEntry {
    ConfigId config;
    std::string_view facets;
  };

  std::string_view Keep(std::string_view bytes);
  VariantId AddVariant(ConfigId config, std::string_view facets);

  std::vector<ConfigEntry> configs_;
  std::vector<VariantEntry> variants_;
  absl::flat_hash_map<std::string_view, ConfigId> config_ids_;
  // Without each config's first variant, which is nearly always the only one.
  absl::flat_hash_map<std::pair<ConfigId, std::string_view>, VariantId> other_variants_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* block_at_ = nullptr;
  size_t block_left_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_CONFIG_TABLE_H_
