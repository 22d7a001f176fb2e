// A log's metadata for readers: its clock, its end, and the order of processes that follows from them.

#ifndef TORCHTRACE_SERIALIZE_LOG_LOG_METADATA_H_
#define TORCHTRACE_SERIALIZE_LOG_LOG_METADATA_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "serialize/log/log_reader.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// The metadata of a process is one JSON object; docs/FORMAT.md lists the keys.
// It may be damaged, missing or untrusted: nothing here fails.

// Merges the metadata frames of a process (an index into log.processes()) in file
// order (JSON merge patch). Skips what can't be read and reports it in `damage`.
// Never null; at least `{}`.
std::shared_ptr<const nlohmann::json> ReadMetadata(const LogReader& log, size_t process, Damage* damage);

// Turns a log's clock units into nanoseconds of CLOCK_MONOTONIC.
class LogClock {
 public:
  // From metadata["clock"], corrected by the second measurement in metadata["end"] or else in
  // metadata["clock_again"]. Without a clock, units are nanoseconds.
  explicit LogClock(const nlohmann::json& metadata);

  int64_t Nanoseconds(uint64_t units) const {
    const double since_origin = static_cast<double>(static_cast<int64_t>(units - origin_units_)) * unit_ns_;
    return origin_ns_ + static_cast<int64_t>(std::clamp(since_origin, -kLimitNs, kLimitNs));
  }
  int64_t Span(uint64_t units) const {
    return static_cast<int64_t>(std::clamp(static_cast<double>(units) * unit_ns_, -kLimitNs, kLimitNs));
  }

  // False without a clock: then times give only an order.
  bool known() const { return known_; }
  int64_t origin_ns() const { return origin_ns_; }
  // Add it to get nanoseconds since 1970; 0: unknown.
  int64_t realtime_offset_ns() const { return realtime_offset_ns_; }

 private:
  // 63 years: sums of damaged times must not overflow.
  static constexpr double kLimitNs = 2e18;

  bool known_ = false;
  double unit_ns_ = 1;
  uint64_t origin_units_ = 0;
  int64_t origin_ns_ = 0;
  int64_t realtime_offset_ns_ = 0;
};

// metadata["end"], which a process writes when it ends in order.
struct LogEnd {
  bool present = false;
  bool has_threads = false;                   // false when a signal ended it
  std::map<uint64_t, uint64_t> thread_calls;  // by thread number
  uint64_t counted = 0;                       // calls in frames of counts
  std::map<std::string, uint64_t> dropped;    // by reason
};
LogEnd ReadLogEnd(const nlohmann::json& metadata);

// metadata["damage"]: the damage of the log from which this process was copied.
Damage ReadSourceDamage(const nlohmann::json& metadata);
// Returns the value for that key.
nlohmann::json FormatSourceDamage(const Damage& damage);

// The clock of a process, by its metadata.
struct ProcessClock {
  bool known = false;
  std::string host;
  std::string boot_id;             // changes each time the machine boots; empty: unknown
  int64_t origin_ns = 0;           // CLOCK_MONOTONIC when the process started
  int64_t realtime_offset_ns = 0;  // added to get the time of day; 0: unknown
};
ProcessClock ReadProcessClock(const nlohmann::json& metadata);

// The order in which the processes of a trace are read, and how their clocks are aligned.
// Processes whose clocks can be related form one group, read by time; each of the others is
// a group by itself, because its times can't be compared with any other's. Groups come in the
// order given, the clocked one at the place of its first process, so the order is the same
// however traces were merged.
struct ProcessOrder {
  // How the clocked group is ordered: by CLOCK_MONOTONIC of one machine that didn't
  // reboot in between, or by the time of day.
  enum Clock : uint8_t { kNone, kMonotonic, kTimeOfDay };
  Clock clock = kNone;
  std::vector<std::vector<uint32_t>> groups;  // of processes, in a group by start
  std::vector<int64_t> shift_ns;              // by process: added to make its times comparable
};

// `processes` in the order given.
ProcessOrder OrderProcesses(const std::vector<ProcessClock>& processes);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_LOG_METADATA_H_
