// The tags of calls, as JSON for exports.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_TAG_TEXTS_H_
#define TORCHTRACE_SERIALIZE_EXPORT_TAG_TEXTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "nlohmann/json.hpp"
#include "serialize/forms/forms.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Checks each text once. The trace must outlive it.
class TagTexts {
 public:
  explicit TagTexts(const Trace* trace) : trace_(trace) {}

  // JSON on one line; empty: none. Tags in a damaged log may not be JSON: they become a string. Valid as long as this.
  std::string_view Of(uint32_t id) {
    if (id == kNoTags) return {};
    const std::string_view text = trace_->tags(id);
    if (text.empty()) return {};
    const auto [at, fresh] = texts_.try_emplace(text.data());
    if (!fresh) return *at->second;
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) json = std::string(text);
    at->second = std::make_unique<const std::string>(DumpJson(json));
    return *at->second;
  }

 private:
  const Trace* const trace_;
  absl::flat_hash_map<const char*, std::unique_ptr<const std::string>> texts_;  // by the text's place
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_TAG_TEXTS_H_
