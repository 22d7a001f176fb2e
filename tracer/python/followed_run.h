// A Python that a traced program started, traced into the same folder. It writes no log before its first call, and
// prints nothing. Whatever fails here, the program runs untraced.

#ifndef TORCHTRACE_TRACER_PYTHON_FOLLOWED_RUN_H_
#define TORCHTRACE_TRACER_PYTHON_FOLLOWED_RUN_H_

#include <string_view>

#include "absl/status/statusor.h"

namespace torchtrace {

// Runs the program with the arguments of Python's main(). `task_text`: of the task (tracer/launch/follow_task.h). The
// last process of the run that ends renders the trace. Returns as RunProgram does.
absl::StatusOr<int> RunFollowed(std::string_view task_text, int argc, char** argv);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_FOLLOWED_RUN_H_
