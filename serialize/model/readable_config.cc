#include "serialize/model/readable_config.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace torchtrace {

Config ReadableConfig(std::string_view identity) {
  absl::StatusOr<Config> config = ParseConfig(identity);
  if (config.ok()) return *std::move(config);
  const ConfigHead head = ReadConfigHead(identity);
  Config stand_in;
  stand_in.level = head.level;
  stand_in.api = head.api;
  Value& why = stand_in.args.emplace_back();
  why.tag = ValueTag::kObject;
  why.text = "unreadable: " + std::string(config.status().message());
  return stand_in;
}

std::vector<TensorFacet> ReadableFacets(std::string_view facets) {
  absl::StatusOr<std::vector<TensorFacet>> parsed = ParseFacets(facets);
  return parsed.ok() ? *std::move(parsed) : std::vector<TensorFacet>();
}

}  // namespace torchtrace
