// The APIs of a Python library: found by a walk through it, chosen by rules, kept as the list that level 0 traces.

#ifndef TORCHTRACE_DIALECTS_SCAN_SCAN_H_
#define TORCHTRACE_DIALECTS_SCAN_SCAN_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/apis/apis.h"
#include "tracer/record/recording_options.h"

namespace torchtrace {

// What lists of APIs leave out: data, in YAML, each rule with its reason.
//
//   unsafe:                        # in no list: wrapping it breaks the program
//   - {name: "*.__getattribute__", reason: ...}
//   noise:                         # not in the default list
//   - {name: torch.testing, reason: ...}
//   keep:                          # in it, though a shorter name leaves it out
//   - {name: torch.testing.assert_close, reason: ...}
//
// A name stands for itself and for all within it, and may be a glob. Of several that fit,
// the longest counts.

class ApiRules {
 public:
  // Adds those of a text; errors name `name`, the line and what was expected there.
  absl::Status Add(std::string_view text, const std::string& name);

  // Takes out of the list what is unsafe.
  void DropUnsafe(ApiList* list) const;

  // The default list of a full one: what is public and no noise, by its public names.
  ApiList Default(const ApiList& full) const;

 private:
  struct Rule {
    std::string pattern;
    std::vector<std::string> kinds;  // only of these; empty: of all
    bool keep = false;
  };

  // The longest of `rules` that fits, or null.
  static const Rule* Find(const std::vector<Rule>& rules, const ApiEntry& entry);

  std::vector<Rule> unsafe_;
  std::vector<Rule> noise_;  // with those to keep
};

// Finds what a Python library has: every function, method, property and class, by
// importing all of its modules in the user's own Python (scan_library.py), in a process
// of its own that may exit, crash and hang. Loads no Python here.

struct ScanOptions {
  std::string python;                // to run
  std::string library;               // `torch`, `numpy`
  std::vector<std::string> imports;  // modules to import as well: they may add operators
  // All modules below the library; else only what `import LIBRARY` loads.
  bool all_modules = true;
  std::string folder;  // searched last, as the current one is; empty: none
  // A dotted name: modules on the way to it are imported if they are there.
  std::string toward;
  double timeout_s = 120;  // for each import
};

// Sorted by name, what is unsafe left out. FailedPrecondition when the library can't be
// imported: what happened, in one sentence.
absl::StatusOr<ApiList> ScanLibrary(const ScanOptions& options);

// Another one with any change in what a scan of the same library would give.
uint64_t ScanVersion();

// The rules for any library, and those of each dialect for its own.
const ApiRules& BuiltInApiRules();

// What level 0 is to trace, of the lists and libraries that the user names. A library is
// scanned in a process of its own (scan.h), which may take a minute; the names found are
// kept in the user's cache folder until the library, what is installed beside it, its Python or
// torchtrace changes. Loads no Python here.

// Where libraries are looked for.
struct ScannedPython {
  std::string dialect_version;               // of the dialect's library, as installed; empty: it isn't
  std::string python;                        // to scan with
  std::vector<std::string> package_folders;  // where that looks for packages
  std::string folder;                        // of the program: searched as well; empty: none
  // Before a library is scanned: what to tell.
  std::function<void(const std::string& text)> tell;
};

// Where what took long is kept for later runs; empty where there is no such place.
std::filesystem::path CacheFolder();

// Sets `apis` and `default_apis` as `api_list` (a file in any form of serialize/apis/apis.h),
// `libraries` (`numpy`, `mypackage.ops`; without them, and without a list, the dialect's) and
// `disable_torch_api_list` have it. The dialect's own list is there at once, and its names are
// not in `apis`. Returns what the list is made of, for the trace's metadata: JSON, a list of
// {"list": FILE or "default" or "everything", "library", "version", "apis"}. InvalidArgument for
// options that exclude each other, or what ReadApiList and ScanLibrary say.
absl::StatusOr<std::string> FindTracedList(const ScannedPython& python, RecordingOptions* options);

// The first part of that, which needs no Python.
absl::Status CheckTracedList(const RecordingOptions& options);

// What --include and --exclude of a recording come to, its groups replaced and its names by all of their APIs'.
// To be asked once `apis` is set. InvalidArgument for an unknown group, and for a name or glob that matches nothing
// which could be recorded (docs/FILTER.md has the rules), with the nearest name.
absl::StatusOr<GlobFilter> FindRecordedNames(const ScannedPython& python, const RecordingOptions& options);

// InvalidArgument for what is no dotted name of a Python module.
absl::Status CheckModuleName(const std::string& text);

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_SCAN_SCAN_H_
