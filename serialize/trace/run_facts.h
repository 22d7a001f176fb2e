// Facts about a run from the metadata of its trace: ranks, operators, totals, completeness.

#ifndef TORCHTRACE_SERIALIZE_TRACE_RUN_FACTS_H_
#define TORCHTRACE_SERIALIZE_TRACE_RUN_FACTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "serialize/trace/statistics.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// The metadata key for the names of PyTorch's operators (docs/FORMAT.md). Not in apis.h
// because traced programs write it.
inline constexpr char kOperatorsKey[] = "operators";

// The value of the key, from names like `aten::add.Tensor` in any order.
nlohmann::json FormatOperators(std::vector<std::string> names);

// Missing and duplicate ranks of one run: of the processes of one label, or of those
// without a label.
struct RankGap {
  std::string label;
  int64_t world_size = 0;
  std::vector<int64_t> missing;    // of 0 to world_size - 1
  std::vector<int64_t> duplicate;  // several processes that weren't forked have it
};

// `ranks 1-3, 7`: ascending ones; the first of many.
std::string NameRanks(const std::vector<int64_t>& ranks);

// Checks the runs in which some process has a rank.
std::vector<RankGap> FindRankGaps(const std::vector<ProcessInfo>& processes);

// "ranks 1-3, 7 of 8 are missing", "rank 2 is there more than once", for each run.
std::vector<std::string> RankSentences(const std::vector<RankGap>& gaps);

// What a log that only counts calls (`run --max-size`) doesn't tell of them, in a sentence.
std::string CountedCalls(uint64_t calls);
// How many calls of the trace are only counted.
uint64_t CountOnlyCounted(const Trace& trace);

// The facts about a whole run, over the metadata of all its processes: the basis of
// run.json, the message at the end of a run and `torchtrace info`.
struct RunFacts {
  size_t processes = 0;
  size_t main = 0;  // index of the run's first process; 0 when there is none
  // Over all processes.
  uint64_t calls = 0;
  uint64_t open_calls = 0;
  uint64_t getters = 0;
  bool getters_unknown = false;           // in some process
  bool paused = false;                    // in some process
  std::vector<std::string> step_windows;  // of all processes
  std::vector<std::string> windows;       // of all processes
  uint64_t left_out = 0;
  std::string left_out_unknown;  // where their number is unknown, in some process
  bool follow_only = false;      // in some process
  uint64_t counted = 0;          // calls that are counted, not listed
  int64_t max_size = 0;          // of some process that counts calls
  std::map<std::string, uint64_t> dropped;
  std::map<std::string, uint64_t> cut;
  std::vector<std::string> not_seen;  // each text once, including started programs
  std::map<std::string, StartedProgram> started;
  std::vector<std::string> stopped;  // each reason once
  uint64_t unclosed = 0;             // processes
  bool damaged = false;
  uint64_t lost_calls = 0;
  bool lost_calls_exact = true;
};

// Count or read the trace first.
RunFacts GatherFacts(const Trace& trace);

// The sentences of the trace's processes on what was not seen that begin so, each once.
std::vector<std::string> NotSeen(const Trace& trace, std::string_view begin);
// What some process says of why that was not seen: of "steps" what follows on `steps: `. Empty: none does.
std::string WhyNotSeen(const Trace& trace, std::string_view what);

// Configs with incomplete descriptions, and calls of them: long texts and containers
// that were cut, containers nested too deeply.
struct CappedCounts {
  uint64_t configs = 0;
  uint64_t calls = 0;
};
CappedCounts CountCapped(const Trace& trace, const Statistics& statistics);

// True if the processes were merged from other traces, according to their metadata.
bool IsMerged(const Trace& trace);

// What the process is in its job, and its number: `rank 1, DataLoader worker 3 (1234)`; where nothing says so, the name
// of its log: `main-1234`. With the label of its run, if it was merged: `gpt2:main-1234`.
std::string ProcessName(const ProcessInfo& process);
// The same without the label. Points into `process`.
std::string_view UnlabelledName(const ProcessInfo& process);

// How one process ended: `exit code 0`, `signal 9 (SIGKILL)`, `trace closed, and the program
// went on`, or `not closed: killed or still running`.
std::string DescribeEnd(const ProcessInfo& process);

// What a trace lacks of its program, in sentences, the most serious first. `ranks`: RankSentences of the processes.
struct Gaps {
  std::vector<std::string> lost;      // calls
  std::vector<std::string> not_seen;  // begin with "not seen: "
  std::vector<std::string> cut;       // descriptions of calls
  std::vector<std::string> left_out;  // as the program or the user asked, or by default; no gap in what was to be there
};
Gaps FindGaps(const RunFacts& facts, const CappedCounts& capped, const std::vector<std::string>& ranks);

// Whether a trace has all calls of its program, for `info`: a sentence for everything that is missing, the most serious
// first, or one that begins with `yes`. Calls that torchtrace leaves out by default, or because the program asked for
// it, come last and don't make a trace incomplete. `ranks`: RankSentences of the processes.
std::vector<std::string> DescribeCompleteness(const RunFacts& facts, const CappedCounts& capped,
                                              const std::vector<std::string>& ranks);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_RUN_FACTS_H_
