// For Pythons whose interpreter is in their program, such as those of Debian, conda and uv: `run` continues in that
// program, in the same process. The executable execs the program with libtorchtrace_preload.so preloaded (preload.h),
// which runs the same command line in place of its main(), by the library of the verbs (cmd/cli/installation.h). The
// runtime then finds Python's functions in the program, and everything else is as in the executable. If such a Python
// also has a libpython, that is the second choice: a program finds its environment's libraries (conda's own C++
// library), but the executable finds the system's.

#ifndef TORCHTRACE_CMD_RUN_RUN_IN_PYTHON_H_
#define TORCHTRACE_CMD_RUN_RUN_IN_PYTHON_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tracer/launch/find_python.h"

namespace torchtrace {

// Whether this Python has such a program and the process is not one yet.
bool HasItsOwnProgram(const PythonInfo& python);

// Runs `command`, torchtrace's name and arguments, in Python's own program. Returns only when that fails.
absl::Status ContinueInProgramOf(const PythonInfo& python, const std::vector<std::string>& command);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_RUN_RUN_IN_PYTHON_H_
