#include <algorithm>
#include <cmath>

#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/plain_form.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

ordered_json TaggedJson(const char* type, std::string value) {
  return ordered_json{{"type", type}, {"value", std::move(value)}};
}

ordered_json PlainToJson(const Plain& plain) {
  switch (plain.kind) {
    case Plain::kNull:
      return nullptr;
    case Plain::kBool:
      return plain.boolean;
    case Plain::kInt:
      return plain.integer;
    case Plain::kBigInt:
      return TaggedJson("int", plain.text);
    case Plain::kFloat:
      if (!std::isfinite(plain.real)) return TaggedJson("float", FormatFloat(plain.real));
      return plain.real;
    case Plain::kString:
      return plain.text;
    case Plain::kList: {
      ordered_json list = ordered_json::array();
      for (const Plain& item : plain.items) list.push_back(PlainToJson(item));
      return list;
    }
    case Plain::kMap: {
      ordered_json map = ordered_json::object();
      for (const auto& [name, value] : plain.fields) map[name] = PlainToJson(value);
      return map;
    }
  }
  return nullptr;
}

// JSON requires escapes only for C0 controls, but people read it on terminals: escapes other control characters too,
// which occur only in strings.
std::string EscapeForPeople(std::string text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return c >= 0 && c < 0x7f; })) return text;
  std::string escaped;
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Char c = DecodeUtf8(rest);
    if (c.code_point < 0x7f || !NeedsEscape(c.code_point)) {
      escaped.append(rest.substr(0, c.bytes));
    } else {
      AppendUtf16Escape(c.code_point, &escaped);
    }
    rest.remove_prefix(c.bytes);
  }
  return escaped;
}

}  // namespace

ordered_json ValueToJson(const Value& value) { return PlainToJson(ToPlain(value)); }

ordered_json ConfigToJson(const Config& config, const std::vector<TensorFacet>& facets) {
  const PlainCall call = ToPlain(config, facets);
  ordered_json args = ordered_json::array();
  for (const Plain& arg : call.args) args.push_back(PlainToJson(arg));
  ordered_json kwargs = ordered_json::object();
  for (const auto& [name, value] : call.kwargs) kwargs[name] = PlainToJson(value);
  const ordered_json level = config.level == kAnyLevel ? ordered_json(nullptr) : ordered_json(config.level);
  return ordered_json{{"level", level}, {"api", config.api}, {"args", std::move(args)}, {"kwargs", std::move(kwargs)}};
}

std::string DumpJson(const ordered_json& json) {
  return EscapeForPeople(json.dump(-1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace));
}

std::string QuotedJson(std::string_view text) { return DumpJson(std::string(text)); }

std::string DumpPrettyJson(const ordered_json& json) {
  return EscapeForPeople(json.dump(2, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace)) + "\n";
}

}  // namespace torchtrace
