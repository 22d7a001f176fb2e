// The numbers of calls of each API and config, for api_statistics.txt, run.json
// and the message at the end of a run. From Trace::Count, the fastest way through
// a log, so there are no times; `torchtrace stats`, which has times, is in
// reports.h.

#ifndef TORCHTRACE_SERIALIZE_TRACE_STATISTICS_H_
#define TORCHTRACE_SERIALIZE_TRACE_STATISTICS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// One API of one level.
struct ApiCount {
  std::string api;
  int level = 0;
  uint64_t calls = 0;
  uint64_t configs = 0;
  uint64_t first = 0;  // for sorting by first appearance
};

struct LevelCount {
  uint64_t calls = 0;
  uint64_t apis = 0;
  uint64_t configs = 0;
};

struct Statistics {
  uint64_t calls = 0;
  uint64_t configs = 0;
  std::vector<uint64_t> config_calls;  // by ConfigId
  std::vector<uint8_t> config_levels;  // by ConfigId
  std::vector<ApiCount> apis;          // by calls, descending, then by first appearance, with ApiOrder::kByCalls
  std::map<int, LevelCount> levels;    // every level that was requested or seen

  // The statistics of `level` alone; config_calls keeps its size, with 0 for other levels.
  Statistics OfLevel(int level) const;
};

// Counts the trace. With kByCalls, also reads it if several threads made calls, to find out
// which API was called first. Lost calls are in none of the counts.
enum class ApiOrder : uint8_t { kByCalls, kNone };
absl::StatusOr<Statistics> CountCalls(Trace* trace, ApiOrder order = ApiOrder::kByCalls);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_STATISTICS_H_
