// The tags that go with calls (docs/FORMAT.md), as JSON texts with small numbers.
// One thread.

#ifndef TORCHTRACE_SERIALIZE_TRACE_TAG_TABLE_H_
#define TORCHTRACE_SERIALIZE_TRACE_TAG_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace torchtrace {

inline constexpr uint32_t kNoTags = 0;

class TagTable {
 public:
  TagTable() { texts_.emplace_back(); }
  TagTable(const TagTable&) = delete;
  TagTable& operator=(const TagTable&) = delete;

  // Equal texts have equal numbers; kNoTags for an empty one.
  uint32_t Intern(std::string_view text) {
    if (text.empty()) return kNoTags;
    const absl::string_view key(text.data(), text.size());
    if (const auto known = ids_.find(key); known != ids_.end()) return known->second;
    const std::string& kept = texts_.emplace_back(text);
    const auto id = static_cast<uint32_t>(texts_.size() - 1);
    ids_.emplace(absl::string_view(kept), id);
    return id;
  }

  // Valid as long as the table; empty for numbers that it hasn't given.
  std::string_view text(uint32_t id) const { return id < texts_.size() ? std::string_view(texts_[id]) : ""; }

 private:
  std::deque<std::string> texts_;  // by number; they stay where they are
  absl::flat_hash_map<absl::string_view, uint32_t> ids_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_TAG_TABLE_H_
