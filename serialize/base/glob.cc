#include "serialize/base/glob.h"

#include <algorithm>
#include <cstddef>

namespace torchtrace {
namespace {

// Whether pattern[*at] takes `c`; moves `at` behind it. A `[` that no `]` ends is itself.
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
    // A `]` that comes first is one of the set.
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
  // Where to go on when the last star has to take one more character. Only the last one matters: whatever an
  // earlier star could take, this one can take as well.
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

}  // namespace torchtrace
