#include "serialize/diff/report_parts.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "serialize/base/plain_text.h"

namespace torchtrace {

absl::StatusOr<DiffFormat> ParseDiffFormat(std::string_view text) {
  if (text == "text") return DiffFormat::kText;
  if (text == "json") return DiffFormat::kJson;
  if (text == "markdown") return DiffFormat::kMarkdown;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown format \"", std::string(text), "\"; known: text, json, markdown"));
}

std::string MarkdownCode(std::string_view text) {
  // A fence longer than any within; a table's cells end at a bar even in code.
  size_t longest = 0, run = 0;
  std::string code;
  for (const char c : PlainLine(text)) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
    if (c == '|') code += '\\';
    code += c;
  }
  if (code.empty()) return code;
  const std::string fence(longest + 1, '`');
  const char* const space = code.front() == '`' || code.back() == '`' ? " " : "";
  return absl::StrCat(fence, space, code, space, fence);
}

}  // namespace torchtrace
