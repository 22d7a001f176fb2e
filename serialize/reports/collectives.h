// Collective operations of torch.distributed, compared across the ranks of a run: who has entered which one.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_COLLECTIVES_H_
#define TORCHTRACE_SERIALIZE_REPORTS_COLLECTIVES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Whether it is one: `c10d::allreduce_`, `torch.distributed.all_reduce` by any path. Not sends and receives, nor waits.
bool IsCollective(std::string_view api);

struct RankProgress {
  int64_t rank = 0;
  uint32_t process = 0;  // index into Trace::processes()
  uint64_t entered = 0;  // collectives
  std::string last;      // API of the last one; empty: there is none
  bool open = false;     // it has not ended
  int64_t time_ns = 0;   // of its entry if it is open, else of its end
};

// The ranks of one run, in collectives of a group, or of groups that the trace doesn't tell apart.
struct CollectiveProgress {
  std::string label;                // of a merged run
  std::string group;                // as CollectiveTraits::group
  std::vector<RankProgress> ranks;  // in order
  // From which one, counted from 1, they are not the same operations on all ranks, as far as these have come.
  std::optional<uint64_t> differ;

  // Who surely waits for whom: all of a group take part in its operations. Empty if nobody does.
  std::vector<int64_t> Waiting() const;
  std::vector<int64_t> Awaited() const;
};

// Takes the calls of a whole trace in order. Memory grows with the collectives.
class CollectiveCalls {
 public:
  // The trace must outlive it.
  explicit CollectiveCalls(const Trace* trace) : trace_(*trace) {}

  void Take(const CallRecord& record);

  // Those in which some rank is in an operation, or has entered more than another; after the last Take.
  std::vector<CollectiveProgress> Compare() const;

 private:
  struct Progress {
    std::vector<uint32_t> apis;  // of the collectives, by number
    uint64_t last_call = kNoCall;
    bool open = false;
    int64_t time_ns = 0;
  };

  // Null: not a collective, or of a group without the rank.
  const std::string* GroupOf(ConfigId config);

  const Trace& trace_;
  std::set<std::string> names_;                            // of groups
  std::vector<std::optional<const std::string*>> groups_;  // by config; none: not known yet
  struct Outermost {
    uint64_t call = kNoCall;
    uint32_t depth = 0;
  };
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, Outermost> outermost_;  // open collectives, by process and thread
  std::map<std::pair<uint32_t, std::string>, Progress> progress_;            // by process
  absl::flat_hash_map<std::string, uint32_t> api_numbers_;
  std::vector<std::string> apis_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_COLLECTIVES_H_
