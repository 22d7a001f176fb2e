// The tags of calls, parsed.

#ifndef TORCHTRACE_SERIALIZE_TRACE_PARSED_TAGS_H_
#define TORCHTRACE_SERIALIZE_TRACE_PARSED_TAGS_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "nlohmann/json.hpp"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Parses each text of Trace::tags once, in however many steps it is; memory grows with these texts. The trace must
// outlive it. Not thread-safe.
class ParsedTags {
 public:
  explicit ParsedTags(const Trace* trace) : trace_(trace) {}

  // A JSON object, valid as long as this; null if there are no tags, or if a damaged log has something else.
  const nlohmann::json* Get(uint32_t id) {
    if (id == kNoTags) return nullptr;
    const std::string_view text = trace_->tags(id);
    auto at = parsed_.find(text.data());
    if (at == parsed_.end()) {
      nlohmann::json tags = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
      at = parsed_.emplace(text.data(), tags.is_object() ? std::make_unique<nlohmann::json>(std::move(tags)) : nullptr)
               .first;
    }
    return at->second.get();
  }

 private:
  const Trace* const trace_;
  absl::flat_hash_map<const char*, std::unique_ptr<const nlohmann::json>> parsed_;  // by the text's place
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_PARSED_TAGS_H_
