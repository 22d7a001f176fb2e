// Calls and times of a trace, summed per config and per thread: one reading, or
// one counting, from which every grouping of `torchtrace stats` is made.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_CALL_TOTALS_H_
#define TORCHTRACE_SERIALIZE_REPORTS_CALL_TOTALS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

struct CallTotal {
  uint64_t calls = 0;
  uint64_t raised = 0;
  int64_t time_ns = 0;          // from entering to leaving
  int64_t self_time_ns = 0;     // without the recorded calls inside
  uint64_t first = UINT64_MAX;  // number of the first call

  void Add(const CallTotal& other) {
    calls += other.calls;
    raised += other.raised;
    time_ns += other.time_ns;
    self_time_ns += other.self_time_ns;
    first = first < other.first ? first : other.first;
  }
};

struct ThreadTotal {
  CallTotal total;
  absl::flat_hash_set<ConfigId> configs;  // seen
};

// Calls of one calling line; those without a stack are a line's too.
struct LineTotal {
  CallTotal total;
  absl::flat_hash_set<ConfigId> configs;  // seen
};
inline constexpr LineId kNoLine = UINT32_MAX;

struct TraceTotals {
  std::vector<CallTotal> configs;                                // by ConfigId
  std::map<std::pair<uint32_t, uint32_t>, ThreadTotal> threads;  // kThread: by process and thread
  std::map<LineId, LineTotal> lines;                             // kLine: of Trace::stacks; kNoLine: no stack
  bool has_times = false;                                        // else all of them are 0: none were kept
};

// Sums the calls of the configs that `accepts` takes; it is asked once per config. They are summed
// by config, and also by what `also_by` says.
enum class SumBy : uint8_t { kConfig, kThread, kLine };
absl::StatusOr<TraceTotals> SumCalls(Trace* trace, const std::function<bool(ConfigId)>& accepts,
                                     SumBy also_by = SumBy::kConfig);

// Only how often each config was called, from Trace::Count: several times faster. `first`
// is the config's id, which is in the order of the definitions.
absl::StatusOr<TraceTotals> CountConfigs(Trace* trace, const std::function<bool(ConfigId)>& accepts);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_CALL_TOTALS_H_
