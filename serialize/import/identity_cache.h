// Keeps what each distinct piece of a file was parsed to: calls repeat, and parsing
// costs a hundred times what a look-up does. Bounded: when it is full it begins
// anew. Not thread-safe; owns its content.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_IDENTITY_CACHE_H_
#define TORCHTRACE_SERIALIZE_IMPORT_IDENTITY_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "serialize/forms/parsed_call.h"

namespace torchtrace {

class IdentityCache {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 20;

  // Null when the text was not seen. Valid until the next Add.
  const ParsedCall* Find(std::string_view text) const {
    const auto at = calls_.find(absl::string_view(text.data(), text.size()));
    return at == calls_.end() ? nullptr : &at->second;
  }

  const ParsedCall& Add(std::string_view text, ParsedCall call) {
    bytes_ += text.size() + call.identity.size() + call.facets.size() + 128;
    if (bytes_ > kMaxBytes) {
      calls_.clear();
      bytes_ = 0;
    }
    return calls_.insert_or_assign(std::string(text), std::move(call)).first->second;
  }

 private:
  absl::flat_hash_map<std::string, ParsedCall> calls_;
  size_t bytes_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_IDENTITY_CACHE_H_
