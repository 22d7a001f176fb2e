#include "cmd/export_in_python.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cmd/cli/installation.h"
#include "cmd/cli/output.h"
#include "nlohmann/json.hpp"
#include "serialize/base/json_member.h"
#include "serialize/base/text.h"
#include "serialize/import/open_trace.h"
#include "serialize/trace/trace.h"
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

namespace {

constexpr std::string_view kLacking = "Parquet needs pyarrow";
constexpr char kPackage[] = "pyarrow";

// The package folders beside an executable: `lib/python3.11/site-packages` and the like.
std::vector<std::string> FoldersBeside(const fs::path& python) {
  std::vector<std::string> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(python.parent_path().parent_path() / "lib", error)) {
    if (!entry.path().filename().string().starts_with("python")) continue;
    for (const char* const name : {"site-packages", "dist-packages"}) folders.push_back(entry.path() / name);
  }
  return folders;
}

// The executable that a process ran in; empty if it isn't recorded.
std::string PythonOf(const ProcessInfo& process) {
  const nlohmann::json* const python = FindMember(*process.metadata, "python");
  return python == nullptr ? "" : TextMember(*python, "executable");
}

}  // namespace

absl::Status WithPythonOfTraces(const absl::Status& error, const std::vector<std::string>& traces) {
  const std::string message(error.message());
  if (message.find(kLacking) == std::string::npos) return error;
  for (const std::string& path : traces) {
    if (path == "-") continue;
    const absl::StatusOr<std::unique_ptr<Trace>> trace = OpenTrace(path);
    if (!trace.ok()) continue;
    for (const ProcessInfo& process : (*trace)->processes()) {
      const std::string python = PythonOf(process);
      if (!python.starts_with('/') || PackageVersion(kPackage, FoldersBeside(python)).empty()) continue;
      return absl::Status(error.code(), absl::StrCat(message, "; or use the Python that recorded ", path,
                                                     ", which has it: --python ", ShellQuote(python)));
    }
  }
  return absl::Status(error.code(), absl::StrCat(message, "; or name a Python that has it by --python"));
}

}  // namespace torchtrace
