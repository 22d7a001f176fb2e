// Numbers texts from 0 in the order in which they are first seen. Owns them.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_TEXT_NUMBERS_H_
#define TORCHTRACE_SERIALIZE_EXPORT_TEXT_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace torchtrace {

class TextNumbers {
 public:
  int64_t Number(std::string_view text) {
    const auto at = numbers_.find(text);
    if (at != numbers_.end()) return at->second;
    const int64_t number = static_cast<int64_t>(texts_.size());
    numbers_.emplace(texts_.emplace_back(text), number);
    return number;
  }

  size_t size() const { return texts_.size(); }
  // Valid as long as this lives.
  std::string_view text(size_t number) const { return texts_[number]; }

 private:
  std::deque<std::string> texts_;  // which never moves them
  absl::flat_hash_map<std::string_view, int64_t> numbers_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_TEXT_NUMBERS_H_
