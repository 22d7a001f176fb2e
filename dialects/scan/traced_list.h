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

namespace torchtrace {

struct TracedListOptions {
  std::string api_list;                // a file in any form of serialize/apis/api_list.h; empty: none
  std::vector<std::string> libraries;  // `numpy`, `mypackage.ops`
  // All that a scan finds, and not only what is in a default list. Excludes `api_list`; without
  // libraries it is the dialect's that is scanned.
  bool everything = false;

  std::string dialect = "torch";             // its library
  std::string dialect_version;               // the one that is installed; empty: none
  std::string python;                        // to scan with
  std::vector<std::string> package_folders;  // where that looks for packages
  std::string folder;                        // of the program: searched as well; empty: none
  // Before a library is scanned: what to tell.
  std::function<void(const std::string& text)> tell;
};

struct TracedList {
  // The dialect's own default list too; it is there at once, and its names are not in `names`.
  bool dialect_list = false;
  std::vector<std::string> names;
  // What it is made of, for the trace's metadata: JSON, a list of {"list": FILE or "default" or
  // "everything", "library", "version", "apis"}.
  std::string description;
};

// InvalidArgument for options that exclude each other, or what ReadApiList and ScanLibrary say.
absl::StatusOr<TracedList> FindTracedList(const TracedListOptions& options);

// The first part of that, which needs no Python.
absl::Status CheckTracedList(const TracedListOptions& options);

// InvalidArgument for what is no dotted name of a Python module.
absl::Status CheckModuleName(const std::string& text);

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_SCAN_TRACED_LIST_H_
