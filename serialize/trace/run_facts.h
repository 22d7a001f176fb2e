// What the metadata of a trace's logs tells, as plain data with checked types:
// the ground that run.json, the end of a run and `torchtrace info` stand on.
// Metadata may be damaged, missing or anybody's; what has another type than
// expected counts as missing.

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

// A program that a traced one started in a process of its own, which was not traced.
struct StartedProgram {
  bool python = false;
  uint64_t count = 0;
};

struct ProcessFacts {
  std::string log;  // path below the output folder: `log/main-1234.ttlog`
  std::string role;
  std::optional<int64_t> exit_code;
  std::optional<int64_t> signal;
  bool paused = false;                 // for some of the time
  bool program_goes_on = false;        // its trace was closed before its end
  std::optional<int64_t> duration_ns;  // from its first record to its end
  uint64_t getters = 0;                // calls of property getters that were left out
  bool getters_unknown = false;        // nobody could count them: it died of a signal
  std::map<std::string, uint64_t> dropped;
  std::map<std::string, uint64_t> cut;
  std::vector<std::string> not_seen;
  std::map<std::string, StartedProgram> started;  // by the program's path
  std::string stopped;                            // why tracing stopped before the program ended
};

struct RunFacts {
  std::vector<ProcessFacts> processes;  // as in trace.processes()
  size_t main = 0;                      // the first process of the run; 0 when there is none
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
