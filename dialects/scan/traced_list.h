// What level 0 is to trace, of the lists and libraries that the user names. A library is
// scanned in a process of its own (scan_library.h), which may take a minute; the names found are
// kept in the user's cache folder until the library, what is installed beside it, its Python or
// torchtrace changes. Loads no Python here.

#ifndef TORCHTRACE_DIALECTS_SCAN_TRACED_LIST_H_
#define TORCHTRACE_DIALECTS_SCAN_TRACED_LIST_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tracer/record/recording_options.h"

namespace torchtrace {

// Where libraries are looked for.
struct ScannedPython {
  std::string dialect_version;               // of the dialect's library, as installed; empty: it isn't
  std::string python;                        // to scan with
  std::vector<std::string> package_folders;  // where that looks for packages
  std::string folder;                        // of the program: searched as well; empty: none
  // Before a library is scanned: what to tell.
  std::function<void(const std::string& text)> tell;
};

// Sets `apis` and `default_apis` as `api_list` (a file in any form of serialize/api_list.h),
// `libraries` (`numpy`, `mypackage.ops`; without them, and without a list, the dialect's) and
// `disable_torch_api_list` have it. The dialect's own list is there at once, and its names are
// not in `apis`. Returns what the list is made of, for the trace's metadata: JSON, a list of
// {"list": FILE or "default" or "everything", "library", "version", "apis"}. InvalidArgument for
// options that exclude each other, or what ReadApiList and ScanLibrary say.
absl::StatusOr<std::string> FindTracedList(const ScannedPython& python, RecordingOptions* options);

// The first part of that, which needs no Python.
absl::Status CheckTracedList(const RecordingOptions& options);

// InvalidArgument for what is no dotted name of a Python module.
absl::Status CheckModuleName(const std::string& text);

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_SCAN_TRACED_LIST_H_
