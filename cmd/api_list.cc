#include "cmd/api_list.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace torchtrace {
namespace {

bool IsDottedName(absl::string_view name) {
  bool dotted = false;
  bool first = true;  // of a part
  for (const char c : name) {
    if (c == '.') {
      if (first) return false;
      dotted = first = true;
    } else if (absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80) != 0 ||
               (!first && absl::ascii_isdigit(static_cast<unsigned char>(c)))) {
      first = false;
    } else {
      return false;
    }
  }
  return dotted && !first;
}

absl::string_view WithoutQuotes(absl::string_view text) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front()) {
    return text.substr(1, text.size() - 2);
  }
  return text;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseApiList(std::string_view text, std::string_view source) {
  std::vector<std::string> names;
  bool counts = true;  // false below another key than `apis`
  int number = 0;
  for (const absl::string_view whole : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    absl::string_view line = whole;
    // A comment begins a line or follows a space.
    for (size_t hash = line.find('#'); hash != absl::string_view::npos; hash = line.find('#', hash + 1)) {
      if (hash > 0 && !absl::ascii_isspace(static_cast<unsigned char>(line[hash - 1]))) continue;
      line = line.substr(0, hash);
      break;
    }
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line == "---") continue;
    if (absl::EndsWith(line, ":")) {
      counts = line == "apis:";
      continue;
    }
    if (!counts) continue;
    if (absl::StartsWith(line, "- ")) line = absl::StripLeadingAsciiWhitespace(line.substr(2));
    line = WithoutQuotes(line);
    if (!IsDottedName(line)) {
      return absl::InvalidArgumentError(absl::StrCat(std::string(source), ":", number, ": '", std::string(line),
                                                     "' is no dotted name such as torch.nn.Linear"));
    }
    names.emplace_back(line);
  }
  if (names.empty()) return absl::InvalidArgumentError(absl::StrCat(std::string(source), ": no names in it"));
  return names;
}

absl::StatusOr<std::vector<std::string>> ReadApiList(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read the API list ", path, ": ", std::strerror(errno)));
  return ParseApiList(text.str(), path);
}

}  // namespace torchtrace
