#include "cmd/run/run_in_python.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cmd/cli/installation.h"
#include "cmd/run/preload.h"

namespace torchtrace {

bool HasItsOwnProgram(const PythonInfo& python) { return !python.uses_libpython && !InPython(); }

absl::Status ContinueInProgramOf(const PythonInfo& python, const std::vector<std::string>& command) {
  const auto failed = [&](const std::string& why) {
    return absl::FailedPreconditionError(absl::StrCat(python.executable, " has no shared libpython, and ", why));
  };
  const std::string verbs = VerbsLibrary().string(), preload = PreloadLibrary().string();
  for (const std::string& library : {verbs, preload}) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(library, error)) {
      return failed(absl::StrCat("running its program needs ", library, "; `tools/torchtrace run ...` builds it"));
    }
  }
  // First in the list, so that its pthread_create comes before every other, as in the executable.
  const char* const others = getenv(kPreloadLibraries);
  const std::optional<std::string> before = others != nullptr ? std::optional<std::string>(others) : std::nullopt;
  setenv(kPreloadLibraries, before ? absl::StrCat(preload, ":", *before).c_str() : preload.c_str(), 1);
  absl::Cleanup restore = [&] {
    unsetenv(kPreloadTask);
    if (before) setenv(kPreloadLibraries, before->c_str(), 1);
    if (!before) unsetenv(kPreloadLibraries);
  };
  // The dynamic linker silently ignores a library that it can't preload, for many reasons. Such a Python would treat
  // the command line as its own: so it is tested first, with a command that fails if nothing was preloaded.
  setenv(kPreloadTask, "", 1);
  const absl::StatusOr<CommandResult> check =
      RunCommand({python.program, "-I", "-S", "-c", "raise SystemExit('LD_PRELOAD has no effect on it')"});
  if (!check.ok()) return check.status();
  if (check->exit_code != 0) {
    const std::string& said = check->standard_error;
    return failed(absl::StrCat("torchtrace can't be loaded into its executable: ", said.substr(0, said.find('\n'))));
  }
  setenv(kPreloadTask, verbs.c_str(), 1);
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(python.program.c_str(), argv.data());
  return failed(absl::StrCat("its program does not start: ", std::strerror(errno)));
}

}  // namespace torchtrace
