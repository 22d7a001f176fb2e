// The folder that a run writes its trace to.

#ifndef TORCHTRACE_CMD_OUTPUT_FOLDER_H_
#define TORCHTRACE_CMD_OUTPUT_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace torchtrace {

// Replaces %p by the process id, %h by the host's name, %r by the rank that the
// environment tells (0 when it tells none), %% by %. InvalidArgument for others.
absl::StatusOr<std::string> ExpandOutputName(const std::string& name);

// Creates `folder` and its log/. What is not empty is refused, unless `force`:
// then what an earlier run wrote there is removed, and nothing else.
absl::Status PrepareOutputFolder(const std::string& folder, bool force);

// Takes away again what PrepareOutputFolder created, where nothing was written.
void DropOutputFolder(const std::string& folder);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_OUTPUT_FOLDER_H_
