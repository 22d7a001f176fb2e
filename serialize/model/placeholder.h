// What stands in a configuration for a part that was forgotten (coarsen.h,
// family.h). No traced program has these values, so that the config stays an
// ordinary one, and every form tells them from real ones: text shows a bare `*`.
// CRITICAL: what writes and what reads the text form share these.

#ifndef TORCHTRACE_SERIALIZE_MODEL_PLACEHOLDER_H_
#define TORCHTRACE_SERIALIZE_MODEL_PLACEHOLDER_H_

#include <cstdint>
#include <string_view>

#include "serialize/model/value_tree.h"

namespace torchtrace {

// A dtype, device or layout; and as a kSymbol, a whole argument.
inline constexpr std::string_view kAnyName = "*";
// A size or stride: the least one that can be encoded.
inline constexpr int64_t kAnySize = INT64_MIN + 1;
// The bytes of a storage.
inline constexpr uint64_t kAnyBytes = UINT64_MAX;
// A level.
inline constexpr int kAnyLevel = 255;

// An argument of which only its place is known.
inline Value AnyValue() {
  Value value;
  value.tag = ValueTag::kSymbol;
  value.text = kAnyName;
  return value;
}

inline bool IsAny(const Value& value) { return value.tag == ValueTag::kSymbol && value.text == kAnyName; }

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_PLACEHOLDER_H_
