#include "serialize/log/process_order.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "nlohmann/json.hpp"
#include "serialize/base/json_member.h"
#include "serialize/log/log_metadata.h"

namespace torchtrace {
namespace {

// The time of day and CLOCK_MONOTONIC of one machine drift apart by no more. By
// more they differ when it was started anew, or slept, or its time was set: where the boot
// ids don't tell, the time of day is the better guess then.
constexpr int64_t kMaxDriftNs = 10'000'000'000;

bool ShareMonotonicClock(const std::vector<ProcessClock>& processes) {
  const ProcessClock* first = nullptr;
  bool one_host = true;
  bool all_booted = true;    // and their ids are known
  std::string_view boot_id;  // the first that is known
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
  // Containers of one machine have names of their own, and some a clock of their own.
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
