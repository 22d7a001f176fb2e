#include "cmd/cli/levels.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "serialize/base/edit_distance.h"

namespace torchtrace {
namespace {

// By number.
const std::vector<std::string>& Names() {
  static const std::vector<std::string> names = {"setattr", "function", "dispatch", "frame", "record"};
  return names;
}

absl::StatusOr<int> ParseLevel(const std::string& word) {
  int number = 0;
  if (absl::SimpleAtoi(word, &number) && number >= 0 && number < static_cast<int>(Names().size())) return number;
  for (size_t i = 0; i < Names().size(); ++i) {
    if (Names()[i] == word) return static_cast<int>(i);
  }
  std::string choices;
  for (size_t i = 0; i < Names().size(); ++i) absl::StrAppend(&choices, i == 0 ? "" : ", ", i, " ", Names()[i]);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown level '", word, "'", DidYouMean(word, Names()), " (levels: ", choices, ")"));
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseLevels(const std::string& text) {
  std::set<int> levels;
  for (const auto word : absl::StrSplit(text, ',')) {
    const absl::StatusOr<int> level = ParseLevel(std::string(absl::StripAsciiWhitespace(word)));
    if (!level.ok()) return level.status();
    levels.insert(*level);
  }
  return std::vector<int>(levels.begin(), levels.end());
}

absl::StatusOr<std::vector<int>> ParseLevels(const std::vector<std::string>& texts) {
  std::set<int> all;
  for (const std::string& text : texts) {
    const absl::StatusOr<std::vector<int>> levels = ParseLevels(text);
    if (!levels.ok()) return levels.status();
    all.insert(levels->begin(), levels->end());
  }
  return std::vector<int>(all.begin(), all.end());
}

std::string DescribeLevel(int level) {
  const bool known = level >= 0 && level < static_cast<int>(Names().size());
  return known ? absl::StrCat(level, " (", Names()[static_cast<size_t>(level)], ")") : absl::StrCat(level);
}

}  // namespace torchtrace
