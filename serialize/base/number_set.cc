#include "serialize/base/number_set.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace torchtrace {
namespace {

bool ParseNumber(std::string_view text, uint64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

absl::Status NumberSet::Add(std::string_view item, const std::string& where) {
  const size_t dash = item.find('-');
  std::pair<uint64_t, uint64_t> range = {0, UINT64_MAX};
  const std::string_view first = item.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : item.substr(dash + 1);
  const bool first_good = ParseNumber(first, &range.first) || (first.empty() && !last.empty());
  const bool last_good = ParseNumber(last, &range.second) || (last.empty() && !first.empty());
  if (!first_good || !last_good || range.first > range.second) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, "\"", std::string(item), "\" is no number and no range; expected A-B, A-, -B or A"));
  }
  ranges_.push_back(range);
  return absl::OkStatus();
}

absl::Status NumberSet::AddFile(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", strerror(errno)));
  std::string text;
  char block[1 << 14];
  size_t bytes = 0;
  while ((bytes = std::fread(block, 1, sizeof block, file)) > 0) text.append(block, bytes);
  const int error = std::ferror(file) != 0 ? errno : 0;
  std::fclose(file);
  if (error != 0) return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", strerror(error)));
  int number = 0;
  for (const auto line : absl::StrSplit(text, '\n')) {
    ++number;
    if (!line.empty() && line[0] == '#') continue;
    for (const auto item : absl::StrSplit(line, absl::ByAnyChar(", \t\r"), absl::SkipEmpty())) {
      const absl::Status status =
          Add(std::string_view(item.data(), item.size()), absl::StrCat(path, ":", number, ": "));
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

void NumberSet::Arrange() {
  std::sort(ranges_.begin(), ranges_.end());
  std::vector<std::pair<uint64_t, uint64_t>> arranged;
  for (const std::pair<uint64_t, uint64_t>& range : ranges_) {
    if (!arranged.empty() && (arranged.back().second == UINT64_MAX || range.first <= arranged.back().second + 1)) {
      arranged.back().second = std::max(arranged.back().second, range.second);
    } else {
      arranged.push_back(range);
    }
  }
  ranges_ = std::move(arranged);
}

absl::StatusOr<NumberSet> NumberSet::Parse(std::string_view text) {
  NumberSet set;
  for (const auto part : absl::StrSplit(std::string(text), ',')) {
    const std::string item(part);
    const absl::Status status = item.rfind('@', 0) == 0 ? set.AddFile(item.substr(1)) : set.Add(item, "");
    if (!status.ok()) return status;
  }
  set.Arrange();
  return set;
}

bool NumberSet::Contains(uint64_t number) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), number,
                                      [](uint64_t value, const auto& range) { return value < range.first; });
  return after != ranges_.begin() && number <= std::prev(after)->second;
}

}  // namespace torchtrace
