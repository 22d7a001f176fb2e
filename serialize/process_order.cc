#include "serialize/process_order.h"

#include <algorithm>
#include <tuple>

#include "nlohmann/json.hpp"
#include "serialize/log_metadata.h"

namespace torchtrace {
namespace {

// The time of day and CLOCK_MONOTONIC of one machine drift apart by no more. By
// more they differ when it was started anew, or slept, or its time was set: then the
// time of day is the better guess.
constexpr int64_t kMaxDriftNs = 10'000'000'000;

bool ShareMonotonicClock(const std::vector<ProcessClock>& processes) {
  const ProcessClock* first = nullptr;
  int64_t least = INT64_MAX;
  int64_t most = INT64_MIN;
  for (const ProcessClock& process : processes) {
    if (!process.known) continue;
    if (first == nullptr) first = &process;
    if (process.host != first->host) return false;
    if (process.realtime_offset_ns == 0) continue;
    least = std::min(least, process.realtime_offset_ns);
    most = std::max(most, process.realtime_offset_ns);
  }
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
  const auto host = metadata.find("host");
  if (host != metadata.end() && host->is_string()) result.host = host->get<std::string>();
  return result;
}

ProcessOrder OrderProcesses(const std::vector<ProcessClock>& processes) {
  ProcessOrder order;
  order.shift_ns.resize(processes.size());
  const bool monotonic = ShareMonotonicClock(processes);
  size_t clocked = SIZE_MAX;  // its group
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
