// The metadata of a log: what is known of its process, as one JSON object, and
// what readers need of it in numbers. docs/FORMAT.md lists the keys. Metadata
// may be damaged, or be missing, or be anybody's: nothing here fails.

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
#include "serialize/trace/damage.h"

namespace torchtrace {

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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_LOG_METADATA_H_
