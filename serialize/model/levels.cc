#include "serialize/model/levels.h"

#include <array>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "serialize/base/matching.h"

namespace torchtrace {
namespace {

constexpr std::array<Level, 5> kLevels = {{
    {kSetattrLevel, "setattr", "the Python functions and classes of a list"},
    {kFunctionLevel, "function", "the calls of torch's API"},
    {kDispatchLevel, "dispatch", "the operators below autograd"},
    {kFrameLevel, "frame", "Python's functions, and nn.Modules with their paths in their models"},
    {kRecordLevel, "record", "PyTorch's RecordFunction: operators above autograd, backward nodes, scopes, kernels"},
}};

absl::StatusOr<int> ParseLevel(const std::string& word) {
  int number = 0;
  if (absl::SimpleAtoi(word, &number) && number >= 0 && number < static_cast<int>(kLevels.size())) return number;
  std::vector<std::string> names, choices;
  for (const Level& level : kLevels) {
    if (level.name == word) return level.number;
    names.emplace_back(level.name);
    choices.push_back(absl::StrCat(level.number, " ", level.name));
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown level '", word, "'", DidYouMean(word, names),
                                                 " (levels: ", absl::StrJoin(choices, ", "), ")"));
}

}  // namespace

std::span<const Level> AllLevels() { return kLevels; }

absl::StatusOr<std::vector<int>> ParseLevels(const std::string& text) {
  std::set<int> levels;
  for (const auto word : absl::StrSplit(text, ',')) {
    const std::string name(absl::StripAsciiWhitespace(word));
    const size_t dash = name.find('-');
    absl::StatusOr<int> first = ParseLevel(name), last = first;
    // 0-4
    if (!first.ok() && dash != std::string::npos && ParseLevel(name.substr(0, dash)).ok()) {
      first = ParseLevel(name.substr(0, dash));
      last = ParseLevel(name.substr(dash + 1));
    }
    if (!first.ok()) return first.status();
    if (!last.ok()) return last.status();
    for (int level = *first; level <= *last; ++level) levels.insert(level);
    if (*first > *last)
      return absl::InvalidArgumentError(absl::StrCat("levels ", name, ": ", *first, " comes after ", *last));
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
  const bool known = level >= 0 && level < static_cast<int>(kLevels.size());
  return known ? absl::StrCat(level, " (", kLevels[static_cast<size_t>(level)].name, ")") : absl::StrCat(level);
}

std::vector<std::string> LevelNames() {
  std::vector<std::string> names;
  for (const Level& level : kLevels) {
    if (*level.sees == '\0') continue;
    names.push_back(absl::StrCat(level.number));
    names.emplace_back(level.name);
  }
  return names;
}

std::string DescribeLevels() {
  std::vector<std::string> levels;
  for (const Level& level : kLevels) {
    if (*level.sees != '\0') levels.push_back(absl::StrCat(level.number, " ", level.name, ", ", level.sees));
  }
  return absl::StrJoin(levels, "; ");
}

}  // namespace torchtrace
