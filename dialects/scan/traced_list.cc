#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "dialects/scan/scan.h"
#include "dialects/table/dialects.h"
#include "nlohmann/json.hpp"
#include "serialize/apis/api_names.h"
#include "serialize/apis/apis.h"
#include "serialize/base/bytes.h"
#include "serialize/base/files.h"
#include "serialize/model/levels.h"
#include "serialize/model/torch_names.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kOps = "torch.ops.";
constexpr std::string_view kAten = "aten::";

// In the first lines of a cached list.
constexpr char kVersionMark[] = "# version: ";

// The names of a list that level 0 can trace. Operators are level 2's.
std::vector<std::string> TraceableNames(const ApiList& list) {
  std::vector<std::string> names;
  for (const ApiEntry& api : list.apis) {
    const bool other_levels =
        !api.levels.empty() && std::find(api.levels.begin(), api.levels.end(), kSetattrLevel) == api.levels.end();
    // As torch.ops.SPACE.NAME it is an object that can be wrapped.
    const bool is_operator = !api.name.starts_with(kOps) && CanonicalName(api.name).find(':') != std::string::npos;
    if (!other_levels && !is_operator) names.push_back(api.name);
  }
  return names;
}

// Whether the dialect's default list was made from this version of its library.
bool IsBuiltIn(const DialectInfo& dialect, const std::string& version) {
  const absl::StatusOr<ApiList> list = DefaultApiList(dialect, version);
  return list.ok() && IsOfVersion(*list, version);
}

// ---- Cached lists ----

void Update(StreamingHash* hash, const std::string& text) { hash->Update(text.data(), text.size() + 1); }

int64_t ModificationTime(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  return error ? 0 : static_cast<int64_t>(time.time_since_epoch().count());
}

bool IsCode(const fs::path& path) { return path.extension() == ".py" || path.extension() == ".so"; }

// The folder or file of an installed library; empty if it isn't in those folders.
fs::path FindLibrary(const std::string& library, const std::vector<std::string>& folders) {
  const std::string top = library.substr(0, library.find('.'));
  std::error_code error;
  for (const std::string& folder : folders) {
    for (const fs::path& path : {fs::path(folder) / top, fs::path(folder) / (top + ".py")}) {
      if (fs::exists(path, error)) return path;
    }
  }
  return {};
}

// The file of a cached list, whose name changes with everything that a scan of the library depends on; empty if that is
// unknown, as for the user's own modules.
fs::path KeptList(const std::string& library, bool everything, const ScannedPython& python) {
  const fs::path cache = CacheFolder();
  const fs::path found = FindLibrary(library, python.package_folders);
  if (cache.empty() || found.empty()) return {};
  StreamingHash hash;
  Update(&hash, absl::StrCat(ScanVersion(), " ", everything));
  Update(&hash, python.python);
  // Other packages decide which modules can be imported.
  for (const std::string& folder : python.package_folders) {
    Update(&hash, absl::StrCat(folder, " ", ModificationTime(folder)));
  }
  std::vector<std::string> files;
  std::error_code error;
  if (fs::is_directory(found, error)) {
    for (fs::recursive_directory_iterator entry(found, error), end; !error && entry != end; entry.increment(error)) {
      if (!IsCode(entry->path())) continue;
      files.push_back(absl::StrCat(entry->path().string(), " ", ModificationTime(entry->path())));
    }
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(absl::StrCat(found.string(), " ", ModificationTime(found)));
  }
  for (const std::string& file : files) Update(&hash, file);
  return cache / absl::StrCat(library, everything ? "-everything-" : "-default-",
                              absl::StrCat(absl::Hex(hash.Digest(), absl::kZeroPad16)), ".txt");
}

struct LibraryList {
  std::string version;
  std::vector<std::string> names;
};

// Empty if there is no complete one.
LibraryList ReadKept(const fs::path& path) {
  LibraryList list;
  std::ifstream file(path);
  std::string line;
  bool complete = false;
  while (std::getline(file, line)) {
    if (line.rfind(kVersionMark, 0) == 0) {
      list.version = line.substr(sizeof kVersionMark - 1);
    } else if (line == "# end") {
      complete = true;
    } else if (!line.empty() && line[0] != '#') {
      list.names.push_back(line);
    }
  }
  return complete ? list : LibraryList();
}

// If it can't be written, the next run scans again.
void Keep(const LibraryList& list, const std::string& library, const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const std::string text =
      absl::StrCat("# What level 0 traces of ", library, ", as a scan found it (see docs/APIS.md).\n", kVersionMark,
                   list.version, "\n", absl::StrJoin(list.names, "\n"), "\n# end\n");
  WriteOutputFile(path.string(), text).IgnoreError();
}

absl::StatusOr<LibraryList> ListLibrary(const std::string& library, bool everything, const ScannedPython& python) {
  const fs::path kept = KeptList(library, everything, python);
  if (!kept.empty()) {
    LibraryList list = ReadKept(kept);
    if (!list.names.empty()) return list;
  }
  if (python.tell) {
    python.tell(absl::StrCat(
        "importing all modules of ", library, " in ", python.python, " ...",
        kept.empty() ? "" : absl::StrCat(" (once: the list is kept in ", kept.parent_path().string(), ")")));
  }
  ScanOptions scan;
  scan.python = python.python;
  scan.library = library;
  scan.folder = python.folder;
  absl::StatusOr<ApiList> found = ScanLibrary(scan);
  if (!found.ok()) return found.status();
  if (!everything) *found = BuiltInApiRules().Default(*found);
  LibraryList list{found->version, TraceableNames(*found)};
  if (list.names.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(library, " has ", everything ? "" : "no public ", "APIs that level 0 could trace"));
  }
  if (!kept.empty()) Keep(list, library, kept);
  return list;
}

// InvalidArgument for an unknown name that is close to a known one. Other unknown names of the dialect's library are
// only reported, since the program may make them. Private names are in no table: the library is scanned for them, once.
absl::Status CheckListed(const ApiList& list, const RecordingOptions& options, const ScannedPython& python) {
  std::vector<WrittenName> unknown, misspelled;
  for (const ApiEntry& api : list.apis) {
    if (api.name.starts_with(absl::StrCat(kScriptLibrary, "."))) {
      return absl::InvalidArgumentError(absl::StrCat(options.api_list, ":", api.line, ": ", api.name,
                                                     " can't be listed: --library ", kScriptLibrary,
                                                     " traces all of the program's own functions"));
    }
    if (api.known_by_user) continue;
    const WrittenName name = {api.name, absl::StrCat(options.api_list, ":", api.line, ": "), {}};
    if (const std::string canonical = CanonicalName(api.name);
        api.name.starts_with(kOps) && canonical.starts_with(kAten)) {
      return absl::InvalidArgumentError(
          absl::StrCat(name.where, api.name,
                       " is an operator, which level 2 traces and not level 0: run -l 2 --include ", canonical));
    }
    if (KnownApiNames().Has(api.name)) continue;
    if (api.name.starts_with(options.dialect + ".")) {
      unknown.push_back(name);
    } else if (!KnownApiNames().Near(api.name).empty()) {
      misspelled.push_back(name);
    }
  }
  if (!misspelled.empty()) return UnknownNames(misspelled, KnownApiNames());
  if (unknown.empty()) return absl::OkStatus();
  const absl::StatusOr<LibraryList> all = ListLibrary(options.dialect, /*everything=*/true, python);
  if (!all.ok()) return absl::OkStatus();  // the program may do better, and its end reports what is missing
  const std::set<std::string> found(all->names.begin(), all->names.end());
  std::erase_if(unknown, [&](const WrittenName& name) { return found.contains(name.text); });
  for (const WrittenName& name : unknown) {
    if (!KnownApiNames().Near(name.text).empty()) misspelled.push_back(name);
  }
  if (!misspelled.empty()) return UnknownNames(misspelled, KnownApiNames());
  if (unknown.empty() || !python.tell) return absl::OkStatus();
  constexpr size_t kNamed = 3;
  const size_t named = std::min(unknown.size(), kNamed);
  python.tell(absl::StrCat(options.api_list, ": ", options.dialect, " ", all->version, " has nothing that is called ",
                           absl::StrJoin(unknown.begin(), unknown.begin() + static_cast<ptrdiff_t>(named), ", ",
                                         [](std::string* out, const WrittenName& name) { out->append(name.text); }),
                           unknown.size() > named ? absl::StrCat(" and ", unknown.size() - named, " more names") : "",
                           "; traced if the program makes it (write ?NAME if it will)"));
  return absl::OkStatus();
}

}  // namespace

fs::path CacheFolder() {
  if (const char* const folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && *folder == '/') {
    return fs::path(folder) / "torchtrace";
  }
  const char* const home = std::getenv("HOME");
  return home == nullptr || *home != '/' ? fs::path() : fs::path(home) / ".cache" / "torchtrace";
}

absl::Status CheckModuleName(const std::string& text) {
  for (const char c : text) {
    const bool known = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '.' || static_cast<unsigned char>(c) >= 0x80;
    if (!known) return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not the name of a Python module"));
  }
  if (text.empty() || text.front() == '.' || text.back() == '.') {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not the name of a Python module"));
  }
  return absl::OkStatus();
}

absl::Status CheckTracedList(const RecordingOptions& options) {
  for (const std::string& library : options.libraries) {
    if (absl::Status status = CheckModuleName(library); !status.ok()) return status;
  }
  if (!options.disable_torch_api_list || options.api_list.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--disable-torch-api-list traces everything that is found, and --api-list what a file names: give one of them");
}

absl::StatusOr<std::string> FindTracedList(const ScannedPython& python, RecordingOptions* options) {
  if (absl::Status status = CheckTracedList(*options); !status.ok()) return status;
  const bool everything = options->disable_torch_api_list;
  options->default_apis = false;
  options->apis.clear();
  json parts = json::array();
  std::set<std::string> seen;
  const auto add = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (seen.insert(name).second) options->apis.push_back(name);
    }
  };
  if (!options->api_list.empty()) {
    const absl::StatusOr<ApiList> list = ReadApiList(options->api_list);
    if (!list.ok()) return list.status();
    if (absl::Status s = CheckListed(*list, *options, python); !s.ok()) return s;
    const std::vector<std::string> names = TraceableNames(*list);
    if (names.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(options->api_list, ": only operators, which level 0 doesn't trace"));
    }
    parts.push_back({{"list", options->api_list}, {"apis", names.size()}});
    add(names);
  }
  std::vector<std::string> libraries = options->libraries;
  if (libraries.empty() && options->api_list.empty()) libraries = {options->dialect};
  for (const std::string& library : libraries) {
    if (library == kScriptLibrary) {
      parts.push_back({{"list", everything ? "everything" : "default"}, {"library", library}});
      continue;
    }
    const DialectInfo* const own = library == options->dialect ? FindDialectInfo(library) : nullptr;
    if (own != nullptr && !everything &&
        (python.dialect_version.empty() || options->libraries.empty() || IsBuiltIn(*own, python.dialect_version))) {
      options->default_apis = true;
      parts.push_back({{"list", "default"}, {"library", library}});
      continue;
    }
    const absl::StatusOr<LibraryList> list = ListLibrary(library, everything, python);
    if (!list.ok()) return list.status();
    parts.push_back({{"list", everything ? "everything" : "default"},
                     {"library", library},
                     {"version", list->version},
                     {"apis", list->names.size()}});
    add(list->names);
  }
  return parts.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

}  // namespace torchtrace
