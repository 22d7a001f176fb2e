#include "serialize/base/matching.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "serialize/base/read_file.h"
#include "serialize/base/text.h"

namespace torchtrace {
namespace {

// Whether the pattern's item at `*at` matches `c`; moves `at` past it. A `[` without a `]` is an ordinary character.
bool TakesOne(std::string_view pattern, size_t* at, char c) {
  const char first = pattern[(*at)++];
  if (first == '?') return true;
  if (first != '[') return first == c;
  size_t i = *at;
  const bool other = i < pattern.size() && pattern[i] == '!';
  if (other) ++i;
  const auto byte = [](char of) { return static_cast<unsigned char>(of); };
  bool found = false;
  for (const size_t start = i; i < pattern.size(); ++i) {
    // A `]` that comes first is a member of the set.
    if (pattern[i] == ']' && i > start) {
      *at = i + 1;
      return found != other;
    }
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      found = found || (byte(pattern[i]) <= byte(c) && byte(c) <= byte(pattern[i + 2]));
      i += 2;
    } else {
      found = found || pattern[i] == c;
    }
  }
  return c == '[';
}

}  // namespace

bool GlobMatch(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  // Where to continue if the last star has to match one more character. Only the last star matters: it can match
  // everything that an earlier one could.
  size_t star = std::string_view::npos;
  size_t retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
      continue;
    }
    if (p < pattern.size() && TakesOne(pattern, &p, text[t])) {
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool GlobFilter::Accepts(std::string_view text) const {
  const auto matches = [text](const std::string& pattern) { return GlobMatch(pattern, text); };
  if (!include.empty() && std::none_of(include.begin(), include.end(), matches)) return false;
  return std::none_of(exclude.begin(), exclude.end(), matches);
}

int EditDistance(std::string_view a, std::string_view b) {
  // Rows of the table of distances between prefixes: the current one and the two above.
  std::vector<int> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  // Two differences, or one in a word so short that two would turn it into any other word.
  int limit = word.size() <= 3 ? 1 : 2;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(word, candidate);
    if (distance > limit) continue;
    nearest = candidate;
    limit = distance - 1;
  }
  if (!nearest.empty() || word.size() < 3) return nearest;
  // Or the word may be the beginning of a candidate.
  const auto starts = [&](const std::string& candidate) { return candidate.compare(0, word.size(), word) == 0; };
  const auto found = std::find_if(candidates.begin(), candidates.end(), starts);
  return found != candidates.end() ? *found : "";
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string nearest = Nearest(word, candidates);
  return nearest.empty() ? "" : absl::StrCat(", did you mean ", nearest, "?");
}

namespace {

// Returns an error unless the whole text is a number.
std::errc ParseNumber(std::string_view text, uint64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return end == text.data() + text.size() ? error : std::errc::invalid_argument;
}

}  // namespace

absl::Status NumberSet::Add(std::string_view item, const std::string& where) {
  const size_t dash = item.find('-');
  std::pair<uint64_t, uint64_t> range = {0, UINT64_MAX};
  const std::string_view first = item.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : item.substr(dash + 1);
  const bool alone = first.empty() && last.empty();
  const std::errc of_first = first.empty() && !alone ? std::errc() : ParseNumber(first, &range.first);
  const std::errc of_last = last.empty() && !alone ? std::errc() : ParseNumber(last, &range.second);
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(where, "\"", PlainLine(item), "\" ", what));
  };
  if (of_first == std::errc::invalid_argument || of_last == std::errc::invalid_argument) {
    return wrong("is not a number or a range; expected A-B, A-, -B or A");
  }
  if (of_first != std::errc() || of_last != std::errc()) return wrong("is beyond the largest number, 2^64 - 1");
  if (range.first > range.second) {
    return wrong(absl::StrCat("ends before it begins; ", range.second, "-", range.first, "?"));
  }
  ranges_.push_back(range);
  return absl::OkStatus();
}

absl::Status NumberSet::AddFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return text.status();
  int number = 0;
  for (const auto line : absl::StrSplit(*text, '\n')) {
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
