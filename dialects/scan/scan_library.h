// Finds what a Python library has: every function, method, property and class, by
// importing all of its modules in the user's own Python (scan_library.py), in a process
// of its own that may exit, crash and hang. Loads no Python here.

#ifndef TORCHTRACE_DIALECTS_SCAN_SCAN_LIBRARY_H_
#define TORCHTRACE_DIALECTS_SCAN_SCAN_LIBRARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dialects/scan/api_rules.h"
#include "serialize/apis/api_list.h"

namespace torchtrace {

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

// The rules for any library and, for PyTorch, its own.
const ApiRules& BuiltInApiRules();

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_SCAN_SCAN_LIBRARY_H_
