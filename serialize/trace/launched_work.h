// What calls launched on devices, for readers that show it with the call, although it is recorded later.

#ifndef TORCHTRACE_SERIALIZE_TRACE_LAUNCHED_WORK_H_
#define TORCHTRACE_SERIALIZE_TRACE_LAUNCHED_WORK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "serialize/model/device_work.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Whether some process of the trace recorded device times.
bool HasDeviceTimes(const Trace& trace);

// The names of kernels, copies and memsets. The trace must outlive it.
class WorkNames {
 public:
  explicit WorkNames(const Trace& trace) : trace_(trace) {}

  // "kernel", "memcpy" or "memset" if it has no name.
  const std::string& Of(uint32_t process, const DeviceWork& work);

 private:
  const Trace& trace_;
  std::map<std::pair<uint32_t, uint64_t>, std::string> names_;
};

// The time that devices spent on what each call launched. Memory grows with the calls that launched something.
class DeviceTimesOfCalls {
 public:
  // Reads the trace, if it has device times.
  absl::Status Prepare(Trace* trace);

  // Takes each record of another Read. For the end of a call: the time of its work and that of the calls in it.
  // nullopt: an entry, or the trace has no device times.
  std::optional<int64_t> Take(const CallRecord& record);

 private:
  struct Open {
    uint64_t call;
    int64_t ns;
  };

  bool known_ = false;
  absl::flat_hash_map<uint64_t, int64_t> own_ns_;  // by call
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Open>> open_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_LAUNCHED_WORK_H_
