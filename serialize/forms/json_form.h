// The JSON form of values and configs: docs/TEXT.md lists what each kind of
// value becomes. What JSON has no number for is tagged: {"type": "float",
// "value": "inf"}, {"type": "int", "value": "18446744073709551616"}. All text
// in the result is valid UTF-8, so that dump() does not throw.

#ifndef TORCHTRACE_SERIALIZE_FORMS_JSON_FORM_H_
#define TORCHTRACE_SERIALIZE_FORMS_JSON_FORM_H_

#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "serialize/model/config.h"
#include "serialize/model/value_tree.h"

namespace torchtrace {

nlohmann::ordered_json ValueToJson(const Value& value);

// {"level": 1, "api": "torch.add", "args": [...], "kwargs": {...}}
nlohmann::ordered_json ConfigToJson(const Config& config, const std::vector<TensorFacet>& facets);

// On one line; bytes that are no UTF-8 become U+FFFD.
std::string DumpJson(const nlohmann::ordered_json& json);
// The same, indented by two and ending in a line break.
std::string DumpPrettyJson(const nlohmann::ordered_json& json);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_JSON_FORM_H_
