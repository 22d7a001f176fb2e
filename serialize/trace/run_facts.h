// What the metadata of a trace tells of its run: facts with checked types, ranks, operators, how complete it is.

#ifndef TORCHTRACE_SERIALIZE_TRACE_RUN_FACTS_H_
#define TORCHTRACE_SERIALIZE_TRACE_RUN_FACTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "serialize/trace/statistics.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// How a log's metadata keeps the names of the operators that PyTorch had
// (docs/FORMAT.md, `operators`). Apart from apis.h because a traced program
// writes it.

inline constexpr char kOperatorsKey[] = "operators";

// The value of the key for operators by name, `aten::add.Tensor`, in any order.
nlohmann::json FormatOperators(std::vector<std::string> names);

// Which ranks a run lacks or has twice.

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

// What is known of a whole run, of all its processes' metadata: the ground that
// run.json, the end of a run and `torchtrace info` stand on.

struct RunFacts {
  size_t processes = 0;
  size_t main = 0;  // index of the run's first process; 0 when there is none
  // Over all processes.
  uint64_t calls = 0;
  uint64_t open_calls = 0;
  uint64_t getters = 0;
  bool getters_unknown = false;  // of some process
  bool paused = false;           // some process
  std::map<std::string, uint64_t> dropped;
  std::map<std::string, uint64_t> cut;
  std::vector<std::string> not_seen;  // each text once, and what was started
  std::map<std::string, StartedProgram> started;
  std::vector<std::string> stopped;  // each reason once
  uint64_t unclosed = 0;             // processes
  bool damaged = false;
  uint64_t lost_calls = 0;
  bool lost_calls_exact = true;
};

// `trace` was counted or read before.
RunFacts GatherFacts(const Trace& trace);

// Configs, and calls of them, of which a description is not whole: long texts
// and containers that were cut, containers nested too deeply.
struct CappedCounts {
  uint64_t configs = 0;
  uint64_t calls = 0;
};
CappedCounts CountCapped(const Trace& trace, const Statistics& statistics);

// True when the processes came from several traces: each one's metadata says from where.
bool IsMerged(const Trace& trace);

// The name of its log: `main-1234`; of a merged process the name of that which it came
// from, after its run's label: `gpt2:main-1234`.
std::string ProcessName(const ProcessInfo& process);

// How one process ended: `exit code 0`, `signal 9 (SIGKILL)`, `trace closed, and the program
// went on`, or `not closed: killed or still running`.
std::string DescribeEnd(const ProcessInfo& process);

// Whether a trace has all calls of its program, as `info` tells people.

// One sentence for all that is missing, the gravest first, or one that begins with `yes`. What torchtrace
// leaves out unless told otherwise, or was told to by the program, comes last, and doesn't make a trace incomplete.
// `ranks`: RankSentences of the processes (serialize/trace/run_facts.h).
std::vector<std::string> DescribeCompleteness(const RunFacts& facts, const CappedCounts& capped,
                                              const std::vector<std::string>& ranks);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_RUN_FACTS_H_
