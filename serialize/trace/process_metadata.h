// What the metadata of a process tells, as plain data with checked types, parsed once for all
// readers. Metadata may be damaged, missing or anybody's; what has another type than expected
// counts as missing. docs/FORMAT.md lists the keys. Who copies metadata copies the JSON.

#ifndef TORCHTRACE_SERIALIZE_TRACE_PROCESS_METADATA_H_
#define TORCHTRACE_SERIALIZE_TRACE_PROCESS_METADATA_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace torchtrace {

// A program that a traced one started in a process of its own, which was not traced.
struct StartedProgram {
  bool python = false;
  uint64_t count = 0;
};

struct ProcessMetadata {
  // Texts are empty where they are missing.
  std::string role;
  std::string host;
  std::optional<int64_t> pid;
  std::optional<int64_t> rank;  // as it is written there; ReadRank asks the environment too
  std::optional<std::string> cwd;
  std::map<std::string, std::string, std::less<>> package_versions;

  // Where it was copied from: the log, and its run.
  bool has_source = false;
  std::string source;
  std::string label;

  // What was asked for.
  std::vector<int> levels;
  std::optional<std::string> stacks;
  std::optional<std::string> stack_format;

  bool has_clock = false;
  std::optional<int64_t> origin_realtime_ns;

  bool paused = false;  // for some of the time

  // How it ended.
  std::optional<int64_t> exit_code;
  std::optional<int64_t> signal;
  bool program_goes_on = false;        // its trace was closed before its end
  std::optional<int64_t> duration_ns;  // from its first record to its end
  std::string stopped;                 // why tracing stopped before that

  // What isn't there.
  uint64_t getters = 0;          // calls of property getters that were left out
  bool getters_unknown = false;  // nobody could count them: it died of a signal
  std::map<std::string, uint64_t> cut;
  std::vector<std::string> not_seen;
  std::map<std::string, StartedProgram> started;  // by the program's path
};

ProcessMetadata ParseProcessMetadata(const nlohmann::json& metadata);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_PROCESS_METADATA_H_
