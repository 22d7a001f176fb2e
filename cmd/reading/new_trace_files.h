// What a verb that makes a trace of others writes beside the new log: the rendered files,
// and run.json. Of one thread.

#ifndef TORCHTRACE_CMD_READING_NEW_TRACE_FILES_H_
#define TORCHTRACE_CMD_READING_NEW_TRACE_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/reading/new_trace_folder.h"
#include "cmd/reading/rendering_options.h"

namespace torchtrace {

// `folder` holds the log, complete, and isn't committed yet; `name` is how the user named
// it. Returns the lines that tell of the trace.
absl::StatusOr<std::vector<std::string>> WriteNewTraceFiles(const NewTraceFolder& folder, const std::string& name,
                                                            const RenderingOptions& options);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_READING_NEW_TRACE_FILES_H_
