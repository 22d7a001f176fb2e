#include "serialize/export/parquet_module_loader.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModulePrefix = "torchtrace_parquet-arrow";
constexpr std::string_view kModuleSuffix = ".so";
constexpr std::string_view kParquetLibrary = "libparquet.so.";
constexpr std::string_view kArrowLibrary = "libarrow.so.";

struct Module {
  int arrow = 0;  // 2600
  fs::path path;
};

// Where Python packages, or a conda environment's libraries, may lie.
struct Environment {
  fs::path prefix;
  std::string source;  // what named it
};

// A folder with Arrow's libraries.
struct Arrow {
  int version = 0;  // 2600
  fs::path folder;
};

std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

fs::path ModulesFolder() {
  if (const std::string folder = Variable("TORCHTRACE_PARQUET_DIR"); !folder.empty()) return folder;
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() / "lib";
}

std::vector<fs::path> Entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    paths.push_back(entry->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// The number between prefix and suffix; 0 when `name` isn't of that form.
int NumberIn(std::string_view name, std::string_view prefix, std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() < prefix.size() + suffix.size()) return 0;
  const std::string_view digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  int number = 0;
  const bool parsed = absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &number);
  return parsed ? number : 0;
}

// The newest first.
std::vector<Module> FindModules(const fs::path& folder) {
  std::vector<Module> modules;
  for (const fs::path& path : Entries(folder)) {
    if (const int arrow = NumberIn(path.filename().string(), kModulePrefix, kModuleSuffix); arrow > 0) {
      modules.push_back({arrow, path});
    }
  }
  std::sort(modules.begin(), modules.end(), [](const Module& a, const Module& b) { return a.arrow > b.arrow; });
  return modules;
}

// The environment of a python (in its bin folder), or of that folder itself. Links are not followed: a virtual
// environment's python is one.
fs::path PrefixOf(const fs::path& python) {
  std::error_code error;
  if (fs::is_directory(python, error)) return python;
  return fs::absolute(python, error).parent_path().parent_path();
}

std::string FindOnPath(const std::string& name) {
  const std::string path = Variable("PATH");
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const fs::path candidate = fs::path(path.substr(at, end - at)) / name;
    std::error_code error;
    if (end > at && fs::is_regular_file(candidate, error)) return candidate.string();
    at = end + 1;
  }
  return "";
}

void AddNamed(std::string python, const char* source, std::vector<Environment>* environments) {
  if (python.empty()) return;
  if (python.find('/') == std::string::npos) {
    std::error_code error;
    const std::string found = fs::is_directory(python, error) ? "" : FindOnPath(python);
    if (!found.empty()) python = found;
  }
  environments->push_back({PrefixOf(python), source});
}

std::vector<Environment> FindEnvironments(const std::string& python) {
  std::vector<Environment> environments;
  AddNamed(python, "--python", &environments);
  if (!environments.empty()) return environments;
  AddNamed(Variable("TORCHTRACE_PYTHON"), "TORCHTRACE_PYTHON", &environments);
  for (const char* const name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string prefix = Variable(name); !prefix.empty()) environments.push_back({prefix, name});
  }
  std::error_code error;
  if (fs::is_directory(".venv", error)) environments.push_back({fs::absolute(".venv", error), ".venv"});
  AddNamed(FindOnPath("python3"), "PATH", &environments);
  return environments;
}

// Every pyarrow of the environment: <prefix>/lib*/python3*/{site,dist}-packages/pyarrow, Debian's and conda's
// libraries.
std::vector<Arrow> FindArrows(const fs::path& prefix) {
  std::vector<fs::path> folders;
  for (const char* const lib : {"lib", "lib64"}) {
    folders.push_back(prefix / lib);
    for (const fs::path& python : Entries(prefix / lib)) {
      if (!python.filename().string().starts_with("python3")) continue;
      folders.push_back(python / "site-packages/pyarrow");
      folders.push_back(python / "dist-packages/pyarrow");
    }
  }
  std::vector<Arrow> arrows;
  for (const fs::path& folder : folders) {
    for (const fs::path& library : Entries(folder)) {
      if (const int version = NumberIn(library.filename().string(), kParquetLibrary, ""); version > 0) {
        arrows.push_back({version, folder});
      }
    }
  }
  return arrows;
}

absl::StatusOr<const ParquetModule*> Load(const Module& module, const Arrow* arrow) {
  if (arrow != nullptr) {
    // The loader takes what is there already under a library's own name.
    for (const std::string_view library : {kArrowLibrary, kParquetLibrary}) {
      const std::string path = (arrow->folder / absl::StrCat(std::string(library), arrow->version)).string();
      if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
        return absl::NotFoundError(absl::StrCat("cannot load pyarrow's libraries: ", dlerror()));
      }
    }
  }
  void* const library = dlopen(module.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::NotFoundError(absl::StrCat("cannot load the Parquet module: ", dlerror()));
  const auto entry = reinterpret_cast<ParquetModuleFunction>(dlsym(library, kParquetModuleEntry));
  const ParquetModule* const functions = entry == nullptr ? nullptr : entry();
  if (functions == nullptr || functions->version != kParquetModuleVersion) {
    return absl::NotFoundError(absl::StrCat(module.path.string(),
                                            " belongs to another torchtrace; `tools/torchtrace export parquet ...` "
                                            "builds the one of this"));
  }
  return functions;
}

// "pyarrow==26.0.*", quoted for a shell.
std::string PackageFor(int arrow) { return absl::StrCat("'pyarrow==", arrow / 100, ".", arrow % 100, ".*'"); }

}  // namespace

absl::StatusOr<const ParquetModule*> LoadParquetModule(const std::string& python) {
  const fs::path folder = ModulesFolder();
  const std::vector<Module> modules = FindModules(folder);
  if (modules.empty()) {
    return absl::NotFoundError(absl::StrCat("Parquet needs ", std::string(kModulePrefix), "*.so, which is not in ",
                                            folder.lexically_normal().string(),
                                            "; `tools/torchtrace export parquet ...` builds it"));
  }
  const std::vector<Environment> environments = FindEnvironments(python);
  std::string others;
  for (const Environment& environment : environments) {
    for (const Arrow& arrow : FindArrows(environment.prefix)) {
      for (const Module& module : modules) {
        if (module.arrow == arrow.version) return Load(module, &arrow);
      }
      absl::StrAppend(&others, others.empty() ? " (there is pyarrow " : ", ", arrow.version / 100, ".",
                      arrow.version % 100, " in ", arrow.folder.string());
    }
  }
  if (!others.empty()) others += ')';
  if (python.empty()) {
    for (const Module& module : modules) {
      const absl::StatusOr<const ParquetModule*> loaded = Load(module, nullptr);
      if (loaded.ok()) return loaded;
    }
  }
  const std::string prefix = environments.empty() ? "" : environments.front().prefix.string();
  return absl::NotFoundError(absl::StrCat("Parquet needs pyarrow", others, "; to install it: ",
                                          prefix.empty() ? "python3" : (fs::path(prefix) / "bin/python3").string(),
                                          " -m pip install ", PackageFor(modules.front().arrow)));
}

}  // namespace torchtrace
