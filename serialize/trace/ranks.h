// The ranks of a trace's processes: which one each has, and which ones a run
// lacks or has twice.

#ifndef TORCHTRACE_SERIALIZE_TRACE_RANKS_H_
#define TORCHTRACE_SERIALIZE_TRACE_RANKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "serialize/trace/trace.h"

namespace torchtrace {

struct ProcessRank {
  std::optional<int64_t> rank;
  std::optional<int64_t> world_size;
};

// metadata["rank"] and ["world_size"], else what the environment in it says as
// torchrun, Open MPI, PMI or Slurm set it.
ProcessRank ReadRank(const nlohmann::json& metadata);

// What is wrong with the ranks of one run: the processes of one label, or those
// without one.
struct RankGap {
  std::string label;
  int64_t world_size = 0;
  std::vector<int64_t> missing;    // of 0 to world_size - 1
  std::vector<int64_t> duplicate;  // several processes that weren't forked have it
};

// Of runs in which a process knows its rank.
std::vector<RankGap> FindRankGaps(const std::vector<ProcessInfo>& processes);

// "ranks 1-3, 7 of 8 are missing", "rank 2 is there more than once", of each run.
std::vector<std::string> RankSentences(const std::vector<RankGap>& gaps);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_RANKS_H_
