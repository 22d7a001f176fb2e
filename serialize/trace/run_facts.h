// What is known of a whole run, of all its processes' metadata: the ground that
// run.json, the end of a run and `torchtrace info` stand on.

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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_RUN_FACTS_H_
