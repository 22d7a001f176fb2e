#include "serialize/trace/config_table.h"

#include <algorithm>
#include <cstring>

namespace torchtrace {
namespace {
constexpr size_t kBlockBytes = 64 << 10;
}  // namespace

VariantId ConfigTable::Intern(std::string_view identity, std::string_view facets) {
  const auto known = config_ids_.find(identity);
  if (known == config_ids_.end()) {
    const auto config = static_cast<ConfigId>(configs_.size());
    const std::string_view kept = Keep(identity);
    config_ids_.emplace(kept, config);
    const VariantId variant = AddVariant(config, facets);
    configs_.push_back({kept, variant});
    return variant;
  }
  const ConfigId config = known->second;
  const VariantId first = configs_[config].first_variant;
  if (variants_[first].facets == facets) return first;
  const auto other = other_variants_.find({config, facets});
  if (other != other_variants_.end()) return other->second;
  const VariantId variant = AddVariant(config, facets);
  other_variants_.emplace(std::pair(config, variants_[variant].facets), variant);
  return variant;
}

VariantId ConfigTable::AddVariant(ConfigId config, std::string_view facets) {
  variants_.push_back({config, Keep(facets)});
  return static_cast<VariantId>(variants_.size() - 1);
}

std::string_view ConfigTable::Keep(std::string_view bytes) {
  if (bytes.empty()) return {};
  if (bytes.size() > block_left_) {
    const size_t size = std::max(bytes.size(), kBlockBytes);
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(size));
    block_at_ = blocks_.back().get();
    block_left_ = size;
  }
  char* const to = block_at_;
  std::memcpy(to, bytes.data(), bytes.size());
  block_at_ += bytes.size();
  block_left_ -= bytes.size();
  return std::string_view(to, bytes.size());
}

}  // namespace torchtrace
