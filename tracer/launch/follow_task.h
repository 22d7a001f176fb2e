// The task of a job: what a Python that a traced program starts has to know to be traced into the same folder. A file
// in the folder's log/, which the variable TORCHTRACE_FOLLOW names (tracer/follow/follow.h).

#ifndef TORCHTRACE_TRACER_LAUNCH_FOLLOW_TASK_H_
#define TORCHTRACE_TRACER_LAUNCH_FOLLOW_TASK_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tracer/launch/run_ending.h"
#include "tracer/launch/run_metadata.h"

namespace torchtrace {

struct FollowTask {
  std::string run;                              // unique: two jobs never mix
  std::map<std::string, std::string> runtimes;  // the library for each minor version of Python, "3.11"
  std::vector<std::string> only;                // globs of command lines; empty: all
  std::vector<std::string> variables;           // prefixes of those that go into the metadata
  std::string metadata_json;                    // of the run
  RunEnding::Options ending;
};

// Lines for the preloaded library, which has no JSON: `torchtrace VERSION API-VERSION`, `runtime MINOR PATH`, `only
// GLOB`; then an empty line and a JSON object for the runtime.
std::string FormatFollowTask(const FollowTask& task);
// InvalidArgument if the file is damaged, or was written by another build.
absl::StatusOr<FollowTask> ParseFollowTask(std::string_view text);

// A new value of `run`.
std::string NewRunId();

// The task's file in the folder `log`.
std::string FollowTaskPath(const std::string& log, const std::string& run);
// Whether a file in log/ has such a name, or is the list of what can't be followed.
bool IsFollowFile(std::string_view name);

// The metadata of a Python that was followed, with the arguments of its main(): the run's, with what is its own.
std::string FormatFollowedMetadata(const FollowTask& task, const std::vector<std::string>& command,
                                   const std::string& python_version);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_LAUNCH_FOLLOW_TASK_H_
