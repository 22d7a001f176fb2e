#include "serialize/base/version_spans.h"

#include <charconv>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace torchtrace {

std::optional<MinorVersion> ParseMinorVersion(std::string_view text) {
  MinorVersion version;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [dot, bad_major] = std::from_chars(begin, end, version.major);
  if (bad_major != std::errc() || dot == end || *dot != '.') return std::nullopt;
  if (std::from_chars(dot + 1, end, version.minor).ec != std::errc()) return std::nullopt;
  return version;
}

std::string FormatMinorVersion(const MinorVersion& version) { return absl::StrCat(version.major, ".", version.minor); }

bool IsAmong(std::string_view spans, const MinorVersion& version) {
  if (spans.empty()) return true;
  for (const absl::string_view span : absl::StrSplit(absl::string_view(spans.data(), spans.size()), ',')) {
    const std::vector<std::string> ends = absl::StrSplit(span, '-');
    if (ends.size() > 2 || (ends.front().empty() && ends.back().empty())) continue;
    const std::optional<MinorVersion> first = ParseMinorVersion(ends.front());
    const std::optional<MinorVersion> last = ParseMinorVersion(ends.back());
    if ((!first && !ends.front().empty()) || (!last && !ends.back().empty())) continue;
    if ((!first || *first <= version) && (!last || version <= *last)) return true;
  }
  return false;
}

}  // namespace torchtrace
