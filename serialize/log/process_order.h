// In which order the processes of a trace are read, and how their clocks are
// brought together. Processes whose clocks can be related are one group, read by
// time; each of the others is a group of its own, for its times say nothing
// about anybody else's. Groups come in the order given, the clocked one where its
// first process stands: so the order is the same however traces were merged.

#ifndef TORCHTRACE_SERIALIZE_LOG_PROCESS_ORDER_H_
#define TORCHTRACE_SERIALIZE_LOG_PROCESS_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace torchtrace {

// What the metadata of a process says of its clock.
struct ProcessClock {
  bool known = false;
  std::string host;
  std::string boot_id;             // another one each time the machine is started; empty: not known
  int64_t origin_ns = 0;           // CLOCK_MONOTONIC when it started
  int64_t realtime_offset_ns = 0;  // what to add for the time of day; 0: not known
};
ProcessClock ReadProcessClock(const nlohmann::json& metadata);

struct ProcessOrder {
  // How the clocked group is ordered: CLOCK_MONOTONIC of one machine that wasn't
  // started anew in between, or the time of day.
  enum Clock : uint8_t { kNone, kMonotonic, kTimeOfDay };
  Clock clock = kNone;
  std::vector<std::vector<uint32_t>> groups;  // of processes; in a group by start
  std::vector<int64_t> shift_ns;              // by process: what makes its times comparable
};

// `processes` in the order given.
ProcessOrder OrderProcesses(const std::vector<ProcessClock>& processes);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_PROCESS_ORDER_H_
