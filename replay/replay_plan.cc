#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "replay/replay.h"
#include "serialize/base/bytes.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/tensor_notes.h"

namespace torchtrace {
namespace {

// What a type is called without its module.
std::string_view LastName(std::string_view dotted) { return dotted.substr(dotted.rfind('.') + 1); }

// Level 4 doesn't know which exception it was.
constexpr char kAnyException[] = "an exception";

}  // namespace

bool TellsStrides(const Trace& trace) {
  for (const ProcessInfo& process : trace.processes()) {
    if (process.metadata == nullptr || !process.metadata->is_object()) continue;
    const auto file = process.metadata->find("execution_trace");
    if (file == process.metadata->end() || !file->is_object()) continue;
    const auto schema = file->find("schema");
    return schema != file->end() && schema->is_string() && schema->get_ref<const std::string&>() >= "1.1.1";
  }
  return true;
}

Fingerprint FingerprintOf(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

absl::StatusOr<int> OneLevelOf(Trace* trace, const CallSelection& selection, const std::vector<int>& order,
                               std::string_view why) {
  if (selection.levels.size() > 1) return absl::InvalidArgumentError(std::string(why));
  if (!selection.levels.empty()) return selection.levels.front();
  const absl::StatusOr<std::vector<uint64_t>> counts = trace->Count();
  if (!counts.ok()) return counts.status();
  std::set<int> levels;
  for (size_t variant = 0; variant < counts->size(); ++variant) {
    if ((*counts)[variant] == 0) continue;
    levels.insert(ReadConfigHead(trace->identity(trace->config_of(static_cast<VariantId>(variant)))).level);
  }
  const auto found = std::find_if(order.begin(), order.end(), [&](int level) { return levels.contains(level); });
  return found == order.end() ? order.front() : *found;
}

absl::Status ReplayPlan::Open(Trace* trace, bool last) {
  trace_ = trace;
  last_ = last;
  next_ = looked_at_ = configs_ = 0;
  chosen_.clear();
  exceptions_ = {""};
  exception_numbers_.clear();
  open_.clear();
  if (absl::Status s = records_.Clear(); !s.ok()) return s;
  selector_.emplace(trace, selection_);
  if (absl::Status s = selector_->Prepare(); !s.ok()) return s;
  absl::Status read = trace->ReadCounted([this](const CallRecord& call) { return See(call); });
  chosen_.resize(trace->config_count());
  // Calls that were open when the program died.
  for (const auto& [call, kept] : open_) {
    Chosen& chosen = chosen_[kept.first];
    if (chosen.exception != kUnknown || chosen.record != 0) continue;
    const absl::StatusOr<uint64_t> record = records_.Add(kept.second, "");
    if (!record.ok()) return record.status();
    chosen.record = *record;
  }
  open_.clear();
  for (const Chosen& chosen : chosen_) configs_ += chosen.variant == kLostId ? 0 : 1;
  return read;
}

absl::Status ReplayPlan::See(const CallRecord& call) {
  if (call.config == kLostId || call.variant == kLostId) return absl::OkStatus();
  if (call.config >= chosen_.size()) chosen_.resize(call.config + call.config / 2 + 16);
  Chosen& chosen = chosen_[call.config];
  if (counts_ && call.kind == CallRecord::kEnter && selector_->Accepts(call)) chosen.calls += call.count;
  if (chosen.exception == kReturned) {
    if (call.kind != CallRecord::kEnter) open_.erase(call.call);
    return absl::OkStatus();
  }
  if (call.kind == CallRecord::kEnter) {
    if (!selector_->Accepts(call)) return absl::OkStatus();
    if (chosen.variant == kLostId) chosen.variant = call.variant;
    open_.emplace(call.call, std::pair(call.config, std::string(call.notes)));
    return absl::OkStatus();
  }
  const auto entry = open_.find(call.call);
  if (entry == open_.end()) return absl::OkStatus();
  const std::string notes = std::move(entry->second.second);
  open_.erase(entry);
  if (call.kind == CallRecord::kLeave) {
    chosen.variant = call.variant;
    chosen.exception = kReturned;
  } else if (chosen.exception == kUnknown && chosen.variant == call.variant) {
    const std::string name(call.exception.empty() ? kAnyException : call.exception);
    const auto [at, fresh] = exception_numbers_.try_emplace(name, static_cast<uint32_t>(exceptions_.size()));
    chosen.exception = at->second;
    if (fresh) exceptions_.push_back(name);
  } else {
    return absl::OkStatus();
  }
  const absl::StatusOr<uint64_t> record = records_.Add(notes, call.result.values);
  if (record.ok()) chosen.record = *record;
  return record.status();
}

bool ReplayPlan::Next(ReplayItem* item) {
  for (; next_ < chosen_.size() && status_.ok(); ++next_) {
    const Chosen& chosen = chosen_[next_];
    if (chosen.variant == kLostId) continue;
    ++looked_at_;
    const std::string_view identity = trace_->identity(static_cast<ConfigId>(next_));
    const Fingerprint fingerprint = FingerprintOf(identity);
    if (last_ ? seen_.contains(fingerprint) : !seen_.insert(fingerprint).second) continue;
    status_ = FillIn(chosen, item);
    if (!status_.ok()) return false;
    ++next_;
    return true;
  }
  return false;
}

absl::Status ReplayPlan::FillIn(const Chosen& chosen, ReplayItem* item) {
  const std::string_view identity = trace_->identity(static_cast<ConfigId>(next_));
  const Config config = ReadableConfig(identity);
  std::string notes, values;
  if (chosen.record != 0) {
    if (absl::Status s = records_.Get(chosen.record, &notes, &values); !s.ok()) return s;
  }
  item->level = config.level;
  item->line = FormatConfig(config);
  item->config = config;
  item->calls = chosen.calls;
  item->recorded = chosen.exception == kUnknown ? "" : exceptions_[chosen.exception];
  nlohmann::ordered_json request = ConfigToJson(config, ReadableFacets(trace_->facets(chosen.variant)));
  request["seed"] = absl::StrFormat("%012x", FingerprintOf(identity).first >> 16);
  request["raised"] = item->recorded;
  request["notes"] = NotesToJson(ReadTensorNotes(notes));
  if (!TellsStrides(*trace_)) request["strides"] = false;
  if (!values.empty()) {
    nlohmann::ordered_json& outputs = request["outputs"] = nlohmann::ordered_json::array();
    for (const Value& value : ReadableResult(values)) outputs.push_back(ValueToJson(value));
  }
  item->request = DumpJson(request);
  const auto [high, low] = FingerprintOf(item->request);
  item->key = absl::StrFormat("%016x%016x", high, low);
  return absl::OkStatus();
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
    result.differs = !item.recorded.empty() || !answer.difference.empty();
    if (item.recorded.empty() && !answer.difference.empty()) result.reason = answer.difference;
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
