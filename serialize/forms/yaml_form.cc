#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"

namespace torchtrace {
namespace {

// Readers look for the colon of a plain `key: value` within 1024 characters.
constexpr size_t kMaxSimpleKeyBytes = 1000;

bool IsLetter(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }

// Words that YAML 1.1 or 1.2, or a reader of either, parses as null, a bool or a float.
bool IsReservedWord(std::string_view text) {
  static constexpr const char* kWords[] = {"y",    "n",     "yes",  "no",  "on",  "off",
                                           "true", "false", "null", "nan", "inf", "infinity"};
  return std::any_of(std::begin(kWords), std::end(kWords), [text](const char* word) {
    return absl::EqualsIgnoreCase(absl::string_view(text.data(), text.size()), word);
  });
}

// Whether the text starts like only a string can, and has no special characters. Colons are allowed only outside
// flow style and between other characters: `aten::add.Tensor`.
bool CanBePlain(std::string_view text, bool in_flow) {
  if (text.empty() || !IsLetter(text[0]) || text.back() == ':' || IsReservedWord(text)) return false;
  return std::all_of(text.begin(), text.end(), [in_flow](char c) {
    return IsLetter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '/' || (c == ':' && !in_flow);
  });
}

void AppendHexEscape(char letter, int digits, uint32_t code_point, std::string* out) {
  out->push_back('\\');
  out->push_back(letter);
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out->push_back("0123456789ABCDEF"[code_point >> shift & 15]);
  }
}

void AppendDoubleQuoted(std::string_view text, std::string* out) {
  out->push_back('"');
  while (!text.empty()) {
    const Utf8Char c = DecodeUtf8(text);
    if (c.kind != Utf8Char::kScalar) {
      out->append("\xef\xbf\xbd");  // YAML can't represent other bytes; plain_form.cc lets none through
    } else if (c.code_point == '"' || c.code_point == '\\') {
      out->push_back('\\');
      out->push_back(static_cast<char>(c.code_point));
    } else if (c.code_point == '\n') {
      out->append("\\n");
    } else if (c.code_point == '\t') {
      out->append("\\t");
    } else if (!NeedsEscape(c.code_point)) {
      out->append(text.substr(0, c.bytes));
    } else if (c.code_point < 0x100) {
      AppendHexEscape('x', 2, c.code_point, out);
    } else if (c.code_point < 0x10000) {
      AppendHexEscape('u', 4, c.code_point, out);
    } else {
      AppendHexEscape('U', 8, c.code_point, out);
    }
    text.remove_prefix(c.bytes);
  }
  out->push_back('"');
}

// YAML 1.1 requires a point in every float, and a sign in its exponent.
std::string YamlFloat(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value < 0 ? "-.inf" : ".inf";
  std::string text = FormatFloat(value);
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) text.insert(exponent, ".0");
  return text;
}

void AppendPlain(const Plain& plain, std::string* out);

void AppendFields(const std::vector<PlainField>& fields, std::string* out) {
  out->push_back('{');
  const char* separator = "";
  for (const auto& [name, value] : fields) {
    out->append(separator);
    separator = ", ";
    const std::string key = YamlScalar(name, /*in_flow=*/true);
    if (key.size() > kMaxSimpleKeyBytes) out->append("? ");
    out->append(key);
    out->append(": ");
    AppendPlain(value, out);
  }
  out->push_back('}');
}

void AppendItems(const std::vector<Plain>& items, std::string* out) {
  out->push_back('[');
  const char* separator = "";
  for (const Plain& item : items) {
    out->append(separator);
    separator = ", ";
    AppendPlain(item, out);
  }
  out->push_back(']');
}

void AppendPlain(const Plain& plain, std::string* out) {
  switch (plain.kind) {
    case Plain::kNull:
      out->append("null");
      return;
    case Plain::kBool:
      out->append(plain.boolean ? "true" : "false");
      return;
    case Plain::kInt:
      out->append(std::to_string(plain.integer));
      return;
    case Plain::kBigInt:
      out->append(plain.text);
      return;
    case Plain::kFloat:
      out->append(YamlFloat(plain.real));
      return;
    case Plain::kString:
      out->append(YamlScalar(plain.text, /*in_flow=*/true));
      return;
    case Plain::kList:
      return AppendItems(plain.items, out);
    case Plain::kMap:
      return AppendFields(plain.fields, out);
  }
}

}  // namespace

std::string YamlScalar(std::string_view text, bool in_flow) {
  if (CanBePlain(text, in_flow)) return std::string(text);
  std::string out;
  AppendDoubleQuoted(text, &out);
  return out;
}

std::string FormatYaml(const Plain& plain) {
  std::string out;
  AppendPlain(plain, &out);
  return out;
}

std::string FormatYamlItem(const Config& config, const std::vector<TensorFacet>& facets,
                           const std::vector<std::string>& extra) {
  const PlainCall call = ToPlain(config, facets);
  std::string out = "- api: ";
  out.append(YamlScalar(config.api, /*in_flow=*/false));
  out.append("\n  args: ");
  AppendItems(call.args, &out);
  out.append("\n  kwargs: ");
  AppendFields(call.kwargs, &out);
  for (const std::string& field : extra) {
    out.append("\n  ");
    out.append(field);
  }
  out.push_back('\n');
  return out;
}

}  // namespace torchtrace
