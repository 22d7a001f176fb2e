#include "cmd/cli/installation.h"

#include <string>
#include <system_error>

#include "absl/strings/match.h"
#include "serialize/base/command_name.h"

namespace torchtrace {
namespace fs = std::filesystem;

bool InPython() { return !OwnLibrary().empty(); }

fs::path InstallationFolder() {
  if (const fs::path library = OwnLibrary(); !library.empty()) {
    return library.parent_path().parent_path().parent_path();
  }
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
}

fs::path RuntimesOfWheel() {
  std::error_code error;
  for (fs::directory_iterator entry(InstallationFolder() / "lib", error), end; !error && entry != end;
       entry.increment(error)) {
    if (!absl::StartsWith(entry->path().filename().string(), "python")) continue;
    for (const char* const packages : {"site-packages", "dist-packages"}) {
      fs::path installed = entry->path() / packages / "torchtrace/runtime";
      std::error_code missing;
      if (fs::is_directory(installed, missing)) return installed;
    }
  }
  return {};
}

std::string EnvironmentOfWheel() { return RuntimesOfWheel().empty() ? "" : InstallationFolder().string(); }

fs::path VerbsLibrary() { return InstallationFolder() / "lib/torchtrace/libtorchtrace_verbs.so"; }

fs::path PreloadLibrary() { return InstallationFolder() / "lib/torchtrace/libtorchtrace_preload.so"; }

}  // namespace torchtrace
