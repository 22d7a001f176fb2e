// Finds the Python that is to run the program, by running commands and reading their output.

#ifndef TORCHTRACE_TRACER_LAUNCH_FIND_PYTHON_H_
#define TORCHTRACE_TRACER_LAUNCH_FIND_PYTHON_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

struct CommandResult {
  int exit_code = 0;  // 128 + the signal when it died of one
  std::string standard_output;
  std::string standard_error;
};

// Runs a command until it exits and returns its output. Its standard input is /dev/null. Searches for a `command[0]`
// without a slash on PATH. Signals that the caller blocks are not blocked in the child. Thread-safe.
absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& command);

// The functions below find the Python that runs a program, and what is known of it before it starts. They run Python
// once, isolated and without site, so that no code of the user's runs. They need no libpython, and are thread-safe as
// long as no thread sets environment variables.

struct FoundPython {
  std::string path;    // may be a name on PATH, or a script that starts Python
  std::string source;  // where it was found: "--python", "VIRTUAL_ENV", "PATH", ...
};

// Takes the first of: `option` unless it is empty, $TORCHTRACE_PYTHON, the Python of `own_environment`,
// $VIRTUAL_ENV/bin/python3, $CONDA_PREFIX/bin/python3, ./.venv/bin/python3, python3 on PATH. The first two may be a
// file, a name on PATH, or an environment's folder; anything else is an error.
//
// `own_environment` is the environment that torchtrace itself is installed in, if any.
absl::StatusOr<FoundPython> FindPython(const std::string& option, const std::string& own_environment);

struct PythonInfo {
  std::string argv0;       // what to pass to Python as argv[0]
  std::string version;     // "3.11.7"
  std::string executable;  // sys.executable
  std::string program;     // the executable itself, not a link or script
  // The environment's package folders after site has run, without the user's own.
  std::vector<std::string> site_folders;
  std::string user_site_folder;  // empty: this environment uses none
  bool uses_libpython = false;   // else all of Python is in the program
  std::string libpython;         // the shared library that it uses, or comes with; may be empty
};

// FailedPrecondition: torchtrace can't trace this Python (python_versions.txt), or it is none. `kept`: a folder of
// earlier answers, which are used as long as nothing that they depend on has changed; empty: none are kept.
absl::StatusOr<PythonInfo> AskPython(const FoundPython& python, const std::string& kept = "");

// FindPython, then AskPython.
absl::StatusOr<PythonInfo> FindAndAskPython(const std::string& option, const std::string& own_environment);

// The folders that `python ARGS...` would search for packages, in order, as far as the environment and -E, -I, -s and
// -S determine them.
std::vector<std::string> PackageFolders(const PythonInfo& python, const std::vector<std::string>& python_args);

// The version in the first metadata of `package` found there; empty if there is none. Follows the paths in .pth files.
// Imports and runs nothing.
std::string PackageVersion(const std::string& package, const std::vector<std::string>& folders);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_LAUNCH_FIND_PYTHON_H_
