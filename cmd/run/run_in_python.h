// Pythons all of which is in their program, as those of Debian, conda and uv: `run` goes on in that program, as one
// process. The executable becomes the program with libtorchtrace_preload.so preloaded (preload.h), which runs the same
// command line in place of its main(), by the verbs' library (cmd/cli/installation.h). The runtime then finds Python's
// functions in the program, and all else is as in the executable. A libpython that such a Python brings as well is the
// second choice: a program finds its environment's libraries (conda's own C++ library), and the executable the
// system's.

#ifndef TORCHTRACE_CMD_RUN_RUN_IN_PYTHON_H_
#define TORCHTRACE_CMD_RUN_RUN_IN_PYTHON_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tracer/launch/find_python.h"

namespace torchtrace {

// The process is not yet such a program, and this Python has one.
bool HasItsOwnProgram(const PythonInfo& python);

// Runs `command`, torchtrace's name and what follows it, in Python's own program. Returns only when that fails.
absl::Status ContinueInProgramOf(const PythonInfo& python, const std::vector<std::string>& command);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_RUN_RUN_IN_PYTHON_H_
