// Counts as people write them: with their noun, and as a part of a whole.

#ifndef TORCHTRACE_SERIALIZE_BASE_COUNTED_TEXT_H_
#define TORCHTRACE_SERIALIZE_BASE_COUNTED_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace torchtrace {

// `1 call`, `2 calls`
inline std::string Counted(uint64_t count, std::string_view one, std::string_view many) {
  return absl::StrCat(count, " ", std::string(count == 1 ? one : many));
}

// `part` of `whole` as `12.34%`; 0.00% of nothing.
inline std::string FormatPercent(uint64_t part, uint64_t whole) {
  const double percent = whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  return absl::StrFormat("%.2f%%", percent);
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_COUNTED_TEXT_H_
