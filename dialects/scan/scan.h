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

// What lists of APIs leave out: data in YAML, each rule with its reason.
//
//   unsafe:                        # in no list: wrapping it breaks the program
//   - {name: "*.__getattribute__", reason: ...}
//   noise:                         # not in the default list
//   - {name: torch.testing, reason: ...}
//   keep:                          # in it, though a shorter name leaves it out
//   - {name: torch.testing.assert_close, reason: ...}
//
// A name matches itself and everything inside it, and may be a glob. The longest rule that matches wins.
class ApiRules {
 public:
  // Adds the rules of a text. An error says `name`, the line and what was expected there.
  absl::Status Add(std::string_view text, const std::string& name);

  // Removes unsafe APIs from the list.
  void DropUnsafe(ApiList* list) const;

  // The default list from a full one: public APIs that are no noise, by their public names.
  ApiList Default(const ApiList& full) const;

 private:
  struct Rule {
    std::string pattern;
    std::vector<std::string> kinds;  // only these; empty: all
    bool keep = false;
  };

  // The longest of `rules` that matches, or null.
  static const Rule* Find(const std::vector<Rule>& rules, const ApiEntry& entry);

  std::vector<Rule> unsafe_;
  std::vector<Rule> noise_;  // and those to keep
};

struct ScanOptions {
  std::string python;                // to run
  std::string library;               // `torch`, `numpy`
  std::vector<std::string> imports;  // modules to import as well: they may add operators
  // All modules below the library; else only what `import LIBRARY` loads.
  bool all_modules = true;
  std::string folder;  // searched last, like the current folder; empty: none
  // A dotted name: modules on the way to it are imported if they exist.
  std::string toward;
  double timeout_s = 120;  // for each import
};

// Finds every function, method, property and class of a Python library by importing all of its modules in the user's
// Python (scan_library.py), in a separate process that may exit, crash and hang. Loads no Python here. Sorted by name,
// without unsafe APIs. FailedPrecondition when the library can't be imported: what happened, in one sentence.
absl::StatusOr<ApiList> ScanLibrary(const ScanOptions& options);

// Changes whenever a scan of the same library could give another result.
uint64_t ScanVersion();

// The rules for any library, and those of each dialect for its own.
const ApiRules& BuiltInApiRules();

// The Python in which libraries are found and scanned.
struct ScannedPython {
  std::string dialect_version;               // of the dialect's installed library; empty: not installed
  std::string python;                        // to scan with
  std::vector<std::string> package_folders;  // where it looks for packages
  std::string folder;                        // the program's: searched as well; empty: none
  // Prints a message for the user, for example before a library is scanned.
  std::function<void(const std::string& text)> tell;
};

// The folder that keeps slow results for later runs; empty if there is none.
std::filesystem::path CacheFolder();

// Finds what level 0 is to trace: sets `apis` and `default_apis` from `api_list` (a file in any form of
// serialize/apis/apis.h), `libraries` (`numpy`, `mypackage.ops`; without them, and without a list, the dialect's) and
// `disable_torch_api_list`. Scanning a library may take a minute; its names are kept in CacheFolder() until the
// library, the packages installed next to it, its Python or torchtrace changes. The dialect's own list is built in, and
// its names are not in `apis`. Loads no Python here. Returns the parts of the list, for the trace's metadata: JSON, a
// list of {"list": FILE or "default" or "everything", "library", "version", "apis"}. InvalidArgument for options that
// exclude each other, or an error of ReadApiList or ScanLibrary.
absl::StatusOr<std::string> FindTracedList(const ScannedPython& python, RecordingOptions* options);

// The checks of FindTracedList that need no Python.
absl::Status CheckTracedList(const RecordingOptions& options);

// The filter of --include and --exclude, with groups expanded and each name replaced by all names of its API. Call it
// after FindTracedList has set `apis`. InvalidArgument for an unknown group, and for a name or glob that matches
// nothing that could be recorded (docs/FILTER.md has the rules), with the nearest name.
absl::StatusOr<GlobFilter> FindRecordedNames(const ScannedPython& python, const RecordingOptions& options);

// InvalidArgument if the text is not the dotted name of a Python module.
absl::Status CheckModuleName(const std::string& text);

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_SCAN_SCAN_H_
