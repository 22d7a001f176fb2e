#include "serialize/trace/statistics.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

// Adds the levels that the processes were asked to trace.
void AddLevelsAskedFor(const Trace& trace, std::map<int, LevelCount>* levels) {
  for (const ProcessInfo& process : trace.processes()) {
    for (const int level : process.known.levels) (*levels)[level];
  }
}

bool HasOneThread(const Trace& trace) {
  size_t threads = 0;
  for (const ProcessInfo& process : trace.processes()) threads += process.threads.size();
  return threads <= 1;
}

// Numbers by ConfigId, ascending with the time of the first call. With one thread the ids already are in that order.
absl::StatusOr<std::vector<uint64_t>> FirstAppearances(Trace* trace) {
  std::vector<uint64_t> first(trace->config_count());
  std::iota(first.begin(), first.end(), uint64_t{0});
  if (HasOneThread(*trace)) return first;
  std::fill(first.begin(), first.end(), UINT64_MAX);
  size_t unseen = first.size();
  const absl::Status all_seen = absl::CancelledError();
  const absl::Status read = trace->ReadCounted([&](const CallRecord& call) -> absl::Status {
    if (call.kind != CallRecord::kEnter || call.config >= first.size()) return absl::OkStatus();
    uint64_t& number = first[call.config];
    if (number != UINT64_MAX) return absl::OkStatus();
    number = call.call;
    return --unseen == 0 ? all_seen : absl::OkStatus();
  });
  if (!read.ok() && read != all_seen) return read;
  return first;
}

void SortByCalls(std::vector<ApiCount>* apis) {
  std::sort(apis->begin(), apis->end(), [](const ApiCount& a, const ApiCount& b) {
    return a.calls != b.calls ? a.calls > b.calls : a.first < b.first;
  });
}

}  // namespace

Statistics Statistics::OfLevel(int level) const {
  Statistics result;
  result.config_calls.resize(config_calls.size());
  for (const ApiCount& api : apis) {
    if (api.level == level) result.apis.push_back(api);
  }
  const auto at = levels.find(level);
  if (at == levels.end()) return result;
  result.levels.insert(*at);
  result.calls = at->second.calls;
  result.configs = at->second.configs;
  for (size_t config = 0; config < config_calls.size(); ++config) {
    if (config_levels[config] == level) result.config_calls[config] = config_calls[config];
  }
  result.config_levels = config_levels;
  return result;
}

absl::StatusOr<Statistics> CountCalls(Trace* trace, ApiOrder order) {
  const absl::StatusOr<std::vector<uint64_t>> counts = trace->Count();
  if (!counts.ok()) return counts.status();

  absl::StatusOr<std::vector<uint64_t>> first = std::vector<uint64_t>();
  if (order == ApiOrder::kByCalls) first = FirstAppearances(trace);
  if (!first.ok()) return first.status();

  Statistics statistics;
  AddLevelsAskedFor(*trace, &statistics.levels);
  statistics.config_calls.resize(trace->config_count());
  statistics.config_levels.resize(trace->config_count());
  for (VariantId variant = 0; variant < counts->size(); ++variant) {
    statistics.config_calls[trace->config_of(variant)] += (*counts)[variant];
  }

  absl::flat_hash_map<std::pair<int, std::string_view>, size_t> index;  // into apis; the trace owns the names
  for (ConfigId config = 0; config < statistics.config_calls.size(); ++config) {
    const uint64_t calls = statistics.config_calls[config];
    const ConfigHead head = ReadConfigHead(trace->identity(config));
    statistics.config_levels[config] = static_cast<uint8_t>(head.level);
    if (calls == 0) continue;
    const auto [at, fresh] = index.try_emplace({head.level, head.api}, statistics.apis.size());
    if (fresh) statistics.apis.push_back({std::string(head.api), head.level, 0, 0, UINT64_MAX});
    ApiCount& api = statistics.apis[at->second];
    if (config < first->size()) api.first = std::min(api.first, (*first)[config]);
    api.calls += calls;
    ++api.configs;
    LevelCount& level = statistics.levels[head.level];
    level.calls += calls;
    ++level.configs;
    if (fresh) ++level.apis;
    statistics.calls += calls;
    ++statistics.configs;
  }
  if (order == ApiOrder::kByCalls) SortByCalls(&statistics.apis);
  return statistics;
}

}  // namespace torchtrace
