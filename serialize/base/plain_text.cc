#include "serialize/base/plain_text.h"

#include <cstdint>

#include "absl/strings/str_format.h"
#include "serialize/base/utf8.h"

namespace torchtrace {
namespace {

// "\x1b[31m": bytes of the sequence that `text` begins with; 0: none.
size_t ColorBytes(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const size_t end = text.find_first_not_of("0123456789", 2);
  return end <= 4 && end > 2 && text[end] == 'm' ? end + 1 : 0;
}

// Whether what `text` begins with may become a character or a colour when more comes.
bool IsBeginning(std::string_view text, bool colors) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead == 0x1b) {
    return colors && text.size() < 5 && text.substr(1, 1).find_first_not_of('[') == text.npos &&
           text.find_first_not_of("0123456789", 2) == text.npos;
  }
  return text.size() < (lead >= 0xf0 ? 4u : lead >= 0xe0 ? 3u : lead >= 0xc0 ? 2u : 1u);
}

bool IsPlain(char c) { return c >= 0x20 && c < 0x7f; }

void AppendEscape(uint32_t code_point, std::string* out) {
  switch (code_point) {
    case '\n':
      out->append("\\n");
      break;
    case '\r':
      out->append("\\r");
      break;
    case '\t':
      out->append("\\t");
      break;
    default:
      if (code_point < 0x100) {
        absl::StrAppendFormat(out, "\\x%02x", code_point);
      } else if (code_point < 0x10000) {
        absl::StrAppendFormat(out, "\\u%04x", code_point);
      } else {
        absl::StrAppendFormat(out, "\\U%08x", code_point);
      }
  }
}

}  // namespace

size_t AppendPlainText(std::string_view text, const PlainTextOptions& options, std::string* out) {
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    while (end < text.size() && (IsPlain(text[end]) || ((text[end] == '\n' || text[end] == '\t') && options.layout)))
      ++end;
    out->append(text.substr(at, end - at));
    at = end;
    const std::string_view rest = text.substr(at);
    if (rest.empty() || (options.more && IsBeginning(rest, options.colors))) break;
    if (const size_t bytes = options.colors ? ColorBytes(rest) : 0; bytes > 0) {
      out->append(rest.substr(0, bytes));
      at += bytes;
      continue;
    }
    const Utf8Char c = DecodeUtf8(rest);
    if (c.kind == Utf8Char::kScalar && !NeedsEscape(c.code_point)) {
      out->append(rest.substr(0, c.bytes));
    } else {
      AppendEscape(c.code_point, out);
    }
    at += c.bytes;
  }
  return at;
}

std::string PlainLine(std::string_view text) {
  std::string line;
  AppendPlainText(text, {.layout = false}, &line);
  return line;
}

}  // namespace torchtrace
