#include "serialize/base/edit_distance.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace torchtrace {

int EditDistance(std::string_view a, std::string_view b) {
  // Rows of the table of distances between prefixes: this one and the two above.
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
  // Two slips, or one in a word so short that two would make any word of it.
  int limit = word.size() <= 3 ? 1 : 2;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(word, candidate);
    if (distance > limit) continue;
    nearest = candidate;
    limit = distance - 1;
  }
  if (!nearest.empty() || word.size() < 3) return nearest;
  // Or the beginning of one.
  const auto starts = [&](const std::string& candidate) { return candidate.compare(0, word.size(), word) == 0; };
  const auto found = std::find_if(candidates.begin(), candidates.end(), starts);
  return found != candidates.end() ? *found : "";
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string nearest = Nearest(word, candidates);
  return nearest.empty() ? "" : absl::StrCat(", did you mean ", nearest, "?");
}

}  // namespace torchtrace
