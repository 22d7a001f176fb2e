// Finds and loads the runtime library: the part of torchtrace that embeds
// Python, one build of it for each pair of Python and torch. They lie in
//
//   <the executable's folder>/../runtime/py3.11.7-torch2.13.0+cpu/
//
// or, where a wheel installed them, in ../lib/python3.11/site-packages/torchtrace/runtime/,
// or in $TORCHTRACE_RUNTIME_DIR, which may be such a folder or hold several.

#ifndef TORCHTRACE_CMD_RUN_RUNTIME_LIBRARY_H_
#define TORCHTRACE_CMD_RUN_RUNTIME_LIBRARY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tracer/launch/find_python.h"
#include "tracer/launch/runtime_api.h"

namespace torchtrace {

struct RuntimeLibrary {
  RuntimeCheckFunction check = nullptr;
  RuntimeRunFunction run = nullptr;
};

// "py3.11.7-torch2.13.0+cpu".
std::string RuntimeKey(const std::string& python_version, const std::string& torch_version);

// The keys of the runtimes that are there, sorted.
std::vector<std::string> AvailableRuntimes();

// The folder of the runtime for this pair. A Python without torch (an empty
// version) takes any of its own version. NotFound says what there is, and how to
// build what is missing.
absl::StatusOr<std::string> FindRuntimeFolder(const FoundPython& python, const PythonInfo& info,
                                              const std::string& torch_version);

// Loads libpython and the runtime for the rest of the process's life, their
// symbols for all libraries to see: Python's extension modules count on that.
absl::StatusOr<RuntimeLibrary> LoadRuntime(const std::string& folder, const PythonInfo& info);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_RUN_RUNTIME_LIBRARY_H_
