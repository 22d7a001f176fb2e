#include "serialize/trace_lines.h"

#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "serialize/config.h"
#include "serialize/json_form.h"
#include "serialize/text_form.h"
#include "serialize/yaml_form.h"

namespace torchtrace {
namespace {

// Stands in for a config that cannot be taken apart: its API with one argument that says why.
Config ConfigOrStandIn(std::string_view identity) {
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

std::vector<TensorFacet> FacetsOrNone(std::string_view facets) {
  absl::StatusOr<std::vector<TensorFacet>> parsed = ParseFacets(facets);
  return parsed.ok() ? *std::move(parsed) : std::vector<TensorFacet>();
}

}  // namespace

std::string ConfigText(const Trace& trace, ConfigId config) {
  return FormatConfig(ConfigOrStandIn(trace.identity(config)));
}

std::string VariantYaml(const Trace& trace, VariantId variant) {
  return FormatYamlItem(ConfigOrStandIn(trace.identity(trace.config_of(variant))), FacetsOrNone(trace.facets(variant)));
}

std::string ConfigYaml(const Trace& trace, ConfigId config, uint64_t calls) {
  const Config parsed = ConfigOrStandIn(trace.identity(config));
  return FormatYamlItem(parsed, {}, {"level: " + std::to_string(parsed.level), "calls: " + std::to_string(calls)});
}

nlohmann::ordered_json VariantJson(const Trace& trace, VariantId variant) {
  return ConfigToJson(ConfigOrStandIn(trace.identity(trace.config_of(variant))), FacetsOrNone(trace.facets(variant)));
}

}  // namespace torchtrace
