#include "cmd/export_in_python.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cmd/cli/installation.h"
#include "cmd/cli/output.h"
#include "tracer/launch/find_python.h"

namespace torchtrace {

namespace fs = std::filesystem;

bool NeedsPython(const Exporter& exporter) { return exporter.python_program != nullptr && !InPython(); }

int ContinueInPython(const Exporter& exporter, const std::string& python, const Command& verb,
                     const std::vector<std::string>& args) {
  const std::string library = VerbsLibrary().string();
  std::error_code error;
  if (!fs::is_regular_file(library, error)) {
    return Fail(kExitTrouble,
                absl::StrCat(exporter.name, " needs ", library, "; `tools/torchtrace ", verb.name, " ...` builds it"));
  }
  // Python doesn't start with a folder as standard input.
  struct stat input;
  if (fstat(STDIN_FILENO, &input) == 0 && S_ISDIR(input.st_mode)) {
    return Fail(kExitTrouble, "cannot read standard input: Is a directory");
  }
  const absl::StatusOr<FoundPython> found = FindPython(python, EnvironmentOfWheel());
  if (!found.ok()) return Fail(kExitTrouble, found.status());
  std::vector<std::string> words = {found->path, "-B", "-c", exporter.python_program, library, verb.name};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  HoldEndingSignals();
  execvp(argv[0], argv.data());
  return Fail(kExitTrouble,
              absl::StrCat("cannot start ", found->path, " (named by ", found->source, "): ", std::strerror(errno)));
}

}  // namespace torchtrace
