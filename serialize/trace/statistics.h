// How often each API and config was called: the numbers behind
// api_statistics.txt, run.json and the message at the end of a run. Counts
// without times come from Trace::Count, which is the fastest way through a log;
// `torchtrace stats`, which shows times, is reports.h.

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
  uint64_t first = 0;  // orders by first appearance
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
  std::vector<ApiCount> apis;          // by calls, falling, then by first appearance, if that was asked for
  std::map<int, LevelCount> levels;    // every level that was asked for or seen

  // What concerns `level` alone; config_calls stays as long, others being 0.
  Statistics OfLevel(int level) const;
};

// Counts the trace, and reads it as well where several threads called and the APIs shall have
// their order: only so is it known whose calls came first. Lost calls are in none of the counts.
enum class ApiOrder : uint8_t { kByCalls, kNone };
absl::StatusOr<Statistics> CountCalls(Trace* trace, ApiOrder order = ApiOrder::kByCalls);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_STATISTICS_H_
