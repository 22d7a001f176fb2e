#include "serialize/forms/trace_lines.h"

#include "nlohmann/json.hpp"
#include "serialize/forms/json_form.h"
#include "serialize/forms/text_form.h"
#include "serialize/forms/yaml_form.h"
#include "serialize/model/config.h"
#include "serialize/model/readable_config.h"

namespace torchtrace {

std::string ConfigText(std::string_view identity) { return FormatConfig(ReadableConfig(identity)); }

std::string ConfigText(const Trace& trace, ConfigId config) { return ConfigText(trace.identity(config)); }

std::string VariantYaml(const Trace& trace, VariantId variant) {
  return FormatYamlItem(ReadableConfig(trace.identity(trace.config_of(variant))),
                        ReadableFacets(trace.facets(variant)));
}

std::string ConfigYaml(const Trace& trace, ConfigId config, uint64_t calls) {
  const Config parsed = ReadableConfig(trace.identity(config));
  return FormatYamlItem(parsed, {}, {"level: " + std::to_string(parsed.level), "calls: " + std::to_string(calls)});
}

nlohmann::ordered_json VariantJson(const Trace& trace, VariantId variant) {
  return ConfigToJson(ReadableConfig(trace.identity(trace.config_of(variant))), ReadableFacets(trace.facets(variant)));
}

}  // namespace torchtrace
