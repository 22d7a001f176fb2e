// A count with its noun, as people write it.

#ifndef TORCHTRACE_SERIALIZE_COUNTED_TEXT_H_
#define TORCHTRACE_SERIALIZE_COUNTED_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace torchtrace {

// `1 call`, `2 calls`
inline std::string Counted(uint64_t count, std::string_view one, std::string_view many) {
  return absl::StrCat(count, " ", std::string(count == 1 ? one : many));
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_COUNTED_TEXT_H_
