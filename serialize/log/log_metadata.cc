#include "serialize/log/log_metadata.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/base/json_member.h"
#include "serialize/base/monotonic_clock.h"

namespace torchtrace {
namespace {

using Json = nlohmann::json;

// Limits the recursion of merging; real metadata is never nested deeper.
constexpr int kMaxDepth = 64;
// The range of plausible clock units.
constexpr double kMinUnitNs = 1e-3;
constexpr double kMaxUnitNs = 1e9;
// The year 2065. LogClock's sums of two origins and a time must not overflow.
constexpr uint64_t kMaxOriginNs = kMostMonotonicNs;
// A shorter measurement is less accurate than the first one.
constexpr uint64_t kMinRefiningNs = 10'000'000;

// `text` is JSON. The library's callback could check the depth too, but then parsing a list
// takes quadratic time.
bool IsTooDeep(const std::string& text) {
  int64_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      if (c == '\\') ++i;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

// Null if `text` is not a JSON object that can be merged.
Json ParseObject(const std::string& text) {
  if (IsTooDeep(text)) return Json();
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json();
}

bool IsUsableUnit(double unit_ns) { return unit_ns >= kMinUnitNs && unit_ns <= kMaxUnitNs; }

// Nanoseconds per unit, from readings of both clocks at the origin and at a later moment.
std::optional<double> MeasureUnit(uint64_t origin_units, uint64_t origin_ns, const Json& later) {
  const std::optional<uint64_t> units = UnsignedMember(later, "units");
  const std::optional<uint64_t> ns = UnsignedMember(later, "monotonic_ns");
  if (!units || !ns || *ns > kMaxOriginNs || *units <= origin_units || *ns < origin_ns + kMinRefiningNs) {
    return std::nullopt;
  }
  const double unit_ns = static_cast<double>(*ns - origin_ns) / static_cast<double>(*units - origin_units);
  return IsUsableUnit(unit_ns) ? std::optional(unit_ns) : std::nullopt;
}

}  // namespace

std::shared_ptr<const Json> ReadMetadata(const LogReader& log, size_t process, Damage* damage) {
  auto merged = std::make_shared<Json>(Json::object());
  for (const uint32_t index : log.processes()[process].frames) {
    const LogFrame& frame = log.frames()[index];
    if (frame.type() != FrameType::kMetadata) continue;
    const FramePayload payload = log.Verify(frame);
    if (!payload.note.empty()) damage->sentences.push_back(absl::StrCat(payload.note, " (metadata)"));
    if (payload.trust == FramePayload::kUseless) damage->lost_bytes += payload.bytes;
    // An empty open frame was reserved for metadata that was never written.
    if (payload.trust == FramePayload::kUseless || payload.bytes == 0) continue;
    const std::string text = log.file().ReadAt(frame.payload_offset(), payload.bytes);
    const Json patch = ParseObject(text);
    if (patch.is_null()) {
      if (payload.note.empty()) {
        damage->sentences.push_back(absl::StrCat("the metadata frame at byte ", frame.offset, " holds no JSON object"));
      }
      damage->lost_bytes += payload.bytes;
      continue;
    }
    merged->merge_patch(patch);
  }
  return merged;
}

LogClock::LogClock(const Json& metadata) {
  const Json* const clock = FindMember(metadata, "clock");
  if (clock == nullptr) return;
  const std::optional<uint64_t> units = UnsignedMember(*clock, "origin_units");
  const std::optional<uint64_t> monotonic = UnsignedMember(*clock, "origin_monotonic_ns");
  const Json* const unit = FindMember(*clock, "unit_ns");
  if (!units || !monotonic || *monotonic > kMaxOriginNs || unit == nullptr || !unit->is_number() ||
      !IsUsableUnit(unit->get<double>())) {
    return;
  }
  known_ = true;
  unit_ns_ = unit->get<double>();
  origin_units_ = *units;
  origin_ns_ = static_cast<int64_t>(*monotonic);
  const std::optional<uint64_t> realtime = UnsignedMember(*clock, "origin_realtime_ns");
  if (realtime && *realtime <= kMaxOriginNs) realtime_offset_ns_ = static_cast<int64_t>(*realtime) - origin_ns_;

  // The longest measurement is the most accurate: the one at the start may have been interrupted.
  for (const char* const key : {"end", "clock_again"}) {
    const Json* const later = FindMember(metadata, key);
    const std::optional<double> unit_ns = later == nullptr ? std::nullopt : MeasureUnit(*units, *monotonic, *later);
    if (!unit_ns) continue;
    unit_ns_ = *unit_ns;
    return;
  }
}

LogEnd ReadLogEnd(const Json& metadata) {
  LogEnd result;
  const Json* const end = FindMember(metadata, "end");
  if (end == nullptr || !end->is_object()) return result;
  result.present = true;
  if (const Json* const threads = FindMember(*end, "threads"); threads != nullptr && threads->is_array()) {
    result.has_threads = true;
    for (const Json& thread : *threads) {
      const std::optional<uint64_t> number = UnsignedMember(thread, "number");
      const std::optional<uint64_t> calls = UnsignedMember(thread, "calls");
      if (number && calls) result.thread_calls[*number] = *calls;
    }
  }
  result.counted = UnsignedMember(*end, "counted").value_or(0);
  if (const Json* const dropped = FindMember(*end, "dropped"); dropped != nullptr && dropped->is_object()) {
    for (const auto& [reason, count] : dropped->items()) {
      if (count.is_number_unsigned()) result.dropped[reason] = count.get<uint64_t>();
    }
  }
  return result;
}

Damage ReadSourceDamage(const Json& metadata) {
  Damage damage;
  const Json* const json = FindMember(metadata, "damage");
  if (json == nullptr) return damage;
  damage.lost_calls = UnsignedMember(*json, "lost_calls").value_or(0);
  damage.lost_bytes = UnsignedMember(*json, "lost_bytes").value_or(0);
  const Json* const exact = FindMember(*json, "lost_calls_exact");
  damage.lost_calls_exact = exact == nullptr || !exact->is_boolean() || exact->get<bool>();
  if (const Json* const sentences = FindMember(*json, "sentences"); sentences != nullptr && sentences->is_array()) {
    for (const Json& sentence : *sentences) {
      if (sentence.is_string()) damage.sentences.push_back(sentence.get<std::string>());
    }
  }
  return damage;
}

Json FormatSourceDamage(const Damage& damage) {
  return {{"sentences", damage.sentences},
          {"lost_calls", damage.lost_calls},
          {"lost_calls_exact", damage.lost_calls_exact},
          {"lost_bytes", damage.lost_bytes}};
}

namespace {

// The time of day and CLOCK_MONOTONIC of one machine drift apart by at most this. They differ
// by more after a reboot, a sleep or a change of the time; without boot ids to decide, the time
// of day is then the better guess.
constexpr int64_t kMaxDriftNs = 10'000'000'000;

bool ShareMonotonicClock(const std::vector<ProcessClock>& processes) {
  const ProcessClock* first = nullptr;
  bool one_host = true;
  bool all_booted = true;    // all boot ids are known
  std::string_view boot_id;  // the first known one
  int64_t least = INT64_MAX;
  int64_t most = INT64_MIN;
  for (const ProcessClock& process : processes) {
    if (!process.known) continue;
    if (first == nullptr) first = &process;
    one_host = one_host && process.host == first->host;
    all_booted = all_booted && !process.boot_id.empty();
    if (boot_id.empty()) boot_id = process.boot_id;
    if (!process.boot_id.empty() && process.boot_id != boot_id) return false;
    if (process.realtime_offset_ns == 0) continue;
    least = std::min(least, process.realtime_offset_ns);
    most = std::max(most, process.realtime_offset_ns);
  }
  if (all_booted && one_host) return true;
  // Containers on one machine have different host names, and some have their own clock.
  if (!one_host && !all_booted) return false;
  return least > most || most - least <= kMaxDriftNs;
}

}  // namespace

ProcessClock ReadProcessClock(const nlohmann::json& metadata) {
  const LogClock clock(metadata);
  ProcessClock result;
  result.known = clock.known();
  result.origin_ns = clock.origin_ns();
  result.realtime_offset_ns = clock.realtime_offset_ns();
  if (!metadata.is_object()) return result;
  result.host = TextMember(metadata, "host");
  result.boot_id = TextMember(metadata, "boot_id");
  return result;
}

ProcessOrder OrderProcesses(const std::vector<ProcessClock>& processes) {
  ProcessOrder order;
  order.shift_ns.resize(processes.size());
  const bool monotonic = ShareMonotonicClock(processes);
  size_t clocked = SIZE_MAX;  // index of the clocked group
  for (uint32_t i = 0; i < processes.size(); ++i) {
    const ProcessClock& process = processes[i];
    if (!process.known || (!monotonic && process.realtime_offset_ns == 0)) {
      order.groups.push_back({i});
      continue;
    }
    if (!monotonic) order.shift_ns[i] = process.realtime_offset_ns;
    if (clocked == SIZE_MAX) {
      clocked = order.groups.size();
      order.groups.emplace_back();
    }
    order.groups[clocked].push_back(i);
  }
  if (clocked == SIZE_MAX) return order;
  order.clock = monotonic ? ProcessOrder::kMonotonic : ProcessOrder::kTimeOfDay;
  const auto key = [&](uint32_t i) { return std::tuple(processes[i].origin_ns + order.shift_ns[i], i); };
  std::vector<uint32_t>& group = order.groups[clocked];
  std::sort(group.begin(), group.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  return order;
}

}  // namespace torchtrace
