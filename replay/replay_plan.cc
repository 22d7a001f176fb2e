#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "replay/replay.h"
#include "serialize/base/bytes.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

// What a type is called without its module.
std::string_view LastName(std::string_view dotted) { return dotted.substr(dotted.rfind('.') + 1); }

// Level 4 doesn't know which exception it was.
constexpr char kAnyException[] = "an exception";

}  // namespace

absl::Status ReplayPlan::Open(Trace* trace) {
  trace_ = trace;
  next_ = 0;
  chosen_.clear();
  exceptions_ = {""};
  const absl::Status read = trace->ReadCounted([this](const CallRecord& call) {
    if (call.config == kLostId || call.variant == kLostId) return absl::OkStatus();
    if (call.config >= chosen_.size()) chosen_.resize(call.config + call.config / 2 + 16);
    Chosen& chosen = chosen_[call.config];
    if (chosen.variant == kLostId) chosen.variant = call.variant;
    if (call.kind == CallRecord::kLeave && chosen.exception != 0) chosen = {call.variant, 0};
    if (call.kind == CallRecord::kRaise && chosen.variant == call.variant && chosen.exception == 0) {
      const std::string name(call.exception.empty() ? kAnyException : call.exception);
      const auto at = std::find(exceptions_.begin() + 1, exceptions_.end(), name);
      const auto number = static_cast<uint32_t>(at - exceptions_.begin());
      if (at == exceptions_.end()) exceptions_.push_back(name);
      chosen.exception = number;
    }
    return absl::OkStatus();
  });
  chosen_.resize(trace->config_count());
  return read;
}

bool ReplayPlan::Next(ReplayItem* item) {
  for (; next_ < chosen_.size(); ++next_) {
    const Chosen& chosen = chosen_[next_];
    if (chosen.variant == kLostId) continue;
    const std::string_view identity = trace_->identity(static_cast<ConfigId>(next_));
    const ConfigHead head = ReadConfigHead(identity);
    const std::vector<int>& levels = filter_.levels;
    if (!levels.empty() && std::find(levels.begin(), levels.end(), head.level) == levels.end()) continue;
    if (!filter_.filter.Accepts(head.api)) continue;
    const XXH128_hash_t hash = XXH3_128bits(identity.data(), identity.size());
    if (!seen_.insert({hash.high64, hash.low64}).second) continue;
    const Config config = ReadableConfig(identity);
    const std::vector<TensorFacet> facets = ReadableFacets(trace_->facets(chosen.variant));
    item->key = absl::StrFormat("%016x%016x", hash.high64, hash.low64);
    item->level = config.level;
    item->line = FormatConfig(config);
    item->recorded = exceptions_[chosen.exception];
    nlohmann::ordered_json request = ConfigToJson(config, facets);
    request["key"] = item->key;
    request["raised"] = item->recorded;
    item->request = DumpJson(request);
    ++next_;
    return true;
  }
  return false;
}

ReplayResult Judge(const ReplayItem& item, const ReplayAnswer& answer) {
  ReplayResult result;
  result.key = item.key;
  result.config = item.line;
  result.level = item.level;
  result.result = answer.result;
  result.recorded = item.recorded;
  result.reason = answer.reason;
  result.seconds = answer.seconds;
  if (answer.result == "ok") {
    result.differs = !item.recorded.empty();
  } else if (answer.result == "raised") {
    const std::vector<std::string>& types = answer.raised;
    const bool as_recorded =
        item.recorded == kAnyException || std::find(types.begin(), types.end(), LastName(item.recorded)) != types.end();
    result.differs = item.recorded.empty() || !as_recorded;
  } else {
    result.differs = answer.result != "skipped";
  }
  return result;
}

}  // namespace torchtrace
