// What a log's metadata tells readers: its clock, its end, and the order of processes that comes of them.

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

// The metadata of a log: what is known of its process, as one JSON object, and
// what readers need of it in numbers. docs/FORMAT.md lists the keys. Metadata
// may be damaged, or be missing, or be anybody's: nothing here fails.

// Merges the metadata frames of a process (an index into log.processes()) in file
// order (JSON merge patch). What can't be read is left out and told in `damage`.
// Never null; at least `{}`.
std::shared_ptr<const nlohmann::json> ReadMetadata(const LogReader& log, size_t process, Damage* damage);

// Turns a log's clock units into nanoseconds of CLOCK_MONOTONIC.
class LogClock {
 public:
  // From metadata["clock"], measured anew by metadata["end"], or, without one, by
  // metadata["clock_again"]; units are nanoseconds
  // when there is none.
  explicit LogClock(const nlohmann::json& metadata);

  int64_t Nanoseconds(uint64_t units) const {
    const double since_origin = static_cast<double>(static_cast<int64_t>(units - origin_units_)) * unit_ns_;
    return origin_ns_ + static_cast<int64_t>(std::clamp(since_origin, -kLimitNs, kLimitNs));
  }

  // False when there is none: then times are only an order.
  bool known() const { return known_; }
  int64_t origin_ns() const { return origin_ns_; }
  // What to add for nanoseconds since 1970; 0 when it isn't known.
  int64_t realtime_offset_ns() const { return realtime_offset_ns_; }

 private:
  // 63 years: damaged times must not overflow in any sum of times.
  static constexpr double kLimitNs = 2e18;

  bool known_ = false;
  double unit_ns_ = 1;
  uint64_t origin_units_ = 0;
  int64_t origin_ns_ = 0;
  int64_t realtime_offset_ns_ = 0;
};

// What metadata["end"] says of a process that ended in order.
struct LogEnd {
  bool present = false;
  bool has_threads = false;                   // false when a signal ended it
  std::map<uint64_t, uint64_t> thread_calls;  // by thread number
  std::map<std::string, uint64_t> dropped;    // by reason
};
LogEnd ReadLogEnd(const nlohmann::json& metadata);

// metadata["damage"]: what the log lacked that this process was copied from.
Damage ReadSourceDamage(const nlohmann::json& metadata);
// The value of that key.
nlohmann::json FormatSourceDamage(const Damage& damage);

// In which order the processes of a trace are read, and how their clocks are
// brought together. Processes whose clocks can be related are one group, read by
// time; each of the others is a group of its own, for its times say nothing
// about anybody else's. Groups come in the order given, the clocked one where its
// first process stands: so the order is the same however traces were merged.

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

#endif  // TORCHTRACE_SERIALIZE_LOG_LOG_METADATA_H_
