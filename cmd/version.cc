// `torchtrace version`.

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cmd/cli/installation.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/run/run_request.h"
#include "serialize/log/log_format.h"
#include "tracer/launch/run_metadata.h"

namespace torchtrace {
namespace {

int RunVersion(const std::vector<std::string>& args) {
  int verbose = 0;
  const auto app = MakeApp(kVersionCommand, "[-v]");
  app->add_flag("-v,--verbose", verbose,
                "Also the log format, the runtimes built, and the Python that `run` would take");
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  std::string text = absl::StrCat("torchtrace ", kVersion, "\n");
  if (verbose > 0) {
    absl::StrAppend(&text, "log format: ", kLogVersion, "\n");
    for (const std::string& key : AvailableRuntimes()) absl::StrAppend(&text, "runtime: ", key, "\n");
    const absl::StatusOr<FoundPython> found = FindPython("", EnvironmentOfWheel());
    const absl::StatusOr<PythonInfo> python = found.ok() ? AskPython(*found) : found.status();
    absl::StrAppend(&text, "python: ");
    if (python.ok()) {
      absl::StrAppend(&text, python->executable, " ", python->version, " (named by ", found->source, ")\n");
    } else {
      absl::StrAppend(&text, python.status().message(), "\n");
    }
  }
  return WriteStandardOutput(text, kExitTrouble);
}

}  // namespace

const Command kVersionCommand = {"version", "Print the version of torchtrace", "General", RunVersion};

}  // namespace torchtrace
