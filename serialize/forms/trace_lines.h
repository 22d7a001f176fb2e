// The text and YAML of a trace's configs by their ids, as files and reports
// show them. A definition that cannot be read, which only a faulty writer
// leaves, still gets a line that says so. `trace` must outlive the results.

#ifndef TORCHTRACE_SERIALIZE_FORMS_TRACE_LINES_H_
#define TORCHTRACE_SERIALIZE_FORMS_TRACE_LINES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "nlohmann/json_fwd.hpp"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Without a line break.
std::string ConfigText(const Trace& trace, ConfigId config);
std::string ConfigText(std::string_view identity);
// An item of api_trace.yaml.
std::string VariantYaml(const Trace& trace, VariantId variant);
// An item of api_configs.yaml, with its level and how often it was called.
std::string ConfigYaml(const Trace& trace, ConfigId config, uint64_t calls);
// {"level", "api", "args", "kwargs"}
nlohmann::ordered_json VariantJson(const Trace& trace, VariantId variant);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_TRACE_LINES_H_
