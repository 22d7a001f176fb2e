// The folder that a run or a torchtrace.trace() writes its trace to.

#ifndef TORCHTRACE_TRACER_OUTPUT_FOLDER_H_
#define TORCHTRACE_TRACER_OUTPUT_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace torchtrace {

// Replaces %p by the process id, %h by the host's name, %r by the rank that the
// environment tells (0 when it tells none), %% by %. InvalidArgument for others.
absl::StatusOr<std::string> ExpandOutputName(const std::string& name);

// What to do about a folder that is refused, as the one who named it can do it.
struct OutputAdvice {
  const char* file = "give another with -o";
  const char* occupied = "--force overwrites the trace in it, -o gives another";
};

// Creates `folder` and its log/. What is not empty is refused, unless `force`:
// then what an earlier run wrote there is removed, and nothing else.
absl::Status PrepareOutputFolder(const std::string& folder, bool force, const OutputAdvice& advice = {});

// Takes away again what PrepareOutputFolder created, and logs in it.
void DropOutputFolder(const std::string& folder);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_OUTPUT_FOLDER_H_
