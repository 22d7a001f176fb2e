// Finding the Python that is to run the program: commands are run, and their answers read.

#ifndef TORCHTRACE_TRACER_LAUNCH_FIND_PYTHON_H_
#define TORCHTRACE_TRACER_LAUNCH_FIND_PYTHON_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

// Runs a command to its end and keeps what it wrote. It reads nothing: its
// standard input is /dev/null. Thread-safe.

struct CommandResult {
  int exit_code = 0;  // 128 + the signal when it died of one
  std::string standard_output;
  std::string standard_error;
};

// `command[0]` without a slash is looked for on PATH. Signals that the caller holds back end the child all the same.
absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& command);

// Finds the Python that a program is run with, and what is known of it before it
// starts. Python is run once, isolated and without site, so that no code of the
// user's runs. Needs no libpython. Thread-safe as long as nobody sets variables.

struct FoundPython {
  std::string path;    // may be a name on PATH, or a script that starts Python
  std::string source;  // what named it: "--python", "VIRTUAL_ENV", "PATH", ...
};

// In this order: `option` when it isn't empty, $TORCHTRACE_PYTHON, that of
// `own_environment`, $VIRTUAL_ENV/bin/python3, $CONDA_PREFIX/bin/python3, ./.venv/bin/python3,
// python3 on PATH. The first two may be a file, a name on PATH, or the folder of
// an environment, and are an error when they are neither.
//
// `own_environment` is the folder that torchtrace itself was installed into with a Python's packages, if any.
absl::StatusOr<FoundPython> FindPython(const std::string& option, const std::string& own_environment);

struct PythonInfo {
  std::string argv0;       // what to give Python as argv[0]
  std::string version;     // "3.11.7"
  std::string executable;  // sys.executable
  std::string program;     // the file that runs: no link, no script
  // Of the environment: where packages are looked for once site has run, the
  // user's own folder not included.
  std::vector<std::string> site_folders;
  std::string user_site_folder;  // empty: this environment takes none
  bool uses_libpython = false;   // else all of Python is in the program
  std::string libpython;         // the shared library that it uses, or brings; may be empty
};

// FailedPrecondition: it is no Python that can be traced (python_versions.txt).
absl::StatusOr<PythonInfo> AskPython(const FoundPython& python);

// Both: asks the Python that is found.
absl::StatusOr<PythonInfo> FindAndAskPython(const std::string& option, const std::string& own_environment);

// The folders that `python ARGS...` would search for packages, in order, as far
// as the environment and -E, -I, -s and -S say.
std::vector<std::string> PackageFolders(const PythonInfo& python, const std::vector<std::string>& python_args);

// The version in the first metadata of `package` found there; empty when there
// is none. Follows the paths in .pth files. Imports and runs nothing.
std::string PackageVersion(const std::string& package, const std::vector<std::string>& folders);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_LAUNCH_FIND_PYTHON_H_
