#include "cmd/run/runtime_library.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

bool HoldsRuntime(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kRuntimeLibraryName, error);
}

fs::path RuntimesFolder() {
  if (const char* const folder = getenv("TORCHTRACE_RUNTIME_DIR"); folder != nullptr && *folder != '\0') return folder;
  std::error_code error;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  const fs::path beside = prefix / "runtime";
  if (fs::is_directory(beside, error)) return beside;
  // Installed from a wheel, into a Python's folder or a virtual environment.
  for (fs::directory_iterator entry(prefix / "lib", error), end; !error && entry != end; entry.increment(error)) {
    if (!absl::StartsWith(entry->path().filename().string(), "python")) continue;
    const fs::path installed = entry->path() / "site-packages/torchtrace/runtime";
    std::error_code missing;
    if (fs::is_directory(installed, missing)) return installed;
  }
  return beside;
}

}  // namespace

std::vector<std::string> AvailableRuntimes() {
  const fs::path folder = RuntimesFolder();
  std::vector<std::string> keys;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (HoldsRuntime(entry->path())) keys.push_back(entry->path().filename().string());
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::string RuntimeKey(const std::string& python_version, const std::string& torch_version) {
  return absl::StrCat("py", python_version, "-torch", torch_version);
}

absl::StatusOr<std::string> FindRuntimeFolder(const FoundPython& python, const PythonInfo& info,
                                              const std::string& torch_version) {
  const fs::path folder = RuntimesFolder();
  if (HoldsRuntime(folder)) return folder.string();
  const std::vector<std::string> keys = AvailableRuntimes();
  const std::string wanted = RuntimeKey(info.version, torch_version);
  for (const std::string& key : keys) {
    if (key == wanted || (torch_version.empty() && absl::StartsWith(key, wanted))) return (folder / key).string();
  }
  return absl::NotFoundError(
      absl::StrCat(python.path, " (named by ", python.source, ") is Python ", info.version,
                   torch_version.empty() ? "" : absl::StrCat(" with torch ", torch_version), ", but ",
                   keys.empty() ? absl::StrCat("there is no runtime in ", folder.lexically_normal().string())
                                : absl::StrCat("the runtimes built are for ", absl::StrJoin(keys, ", ")),
                   "; `tools/torchtrace run --python ", info.executable, " ...` builds the missing one"));
}

absl::StatusOr<RuntimeLibrary> LoadRuntime(const std::string& folder, const PythonInfo& info) {
  const std::string path = absl::StrCat(folder, "/", kRuntimeLibraryName);
  // The runtime takes the libpython that is there already: this Python's own,
  // rather than the one that it was built with. A failure shows below.
  if (!info.libpython.empty()) dlopen(info.libpython.c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return absl::NotFoundError(absl::StrCat("cannot load the runtime: ", dlerror()));
  RuntimeLibrary runtime;
  runtime.check = reinterpret_cast<RuntimeCheckFunction>(dlsym(library, kRuntimeCheckName));
  runtime.run = reinterpret_cast<RuntimeRunFunction>(dlsym(library, kRuntimeRunName));
  if (runtime.check == nullptr || runtime.run == nullptr) {
    return absl::NotFoundError(absl::StrCat(path, " is no torchtrace runtime"));
  }
  return runtime;
}

}  // namespace torchtrace
