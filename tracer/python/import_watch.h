// Tells when a Python module has been imported. Every loader of Python's own
// runs a module's code through one method; while modules are watched for, that
// method is a native callable around the original. So the program's own finders
// and loaders stay as they are, no frame of ours stands in a traceback, and
// `after` runs before any other thread can use the module, whichever thread
// imports it. An import that fails counts for nothing; a later one is seen.
//
// Not seen: a module whose loader is not one of Python's and runs its code by
// itself. Needs the GIL.

#ifndef TORCHTRACE_TRACER_PYTHON_IMPORT_WATCH_H_
#define TORCHTRACE_TRACER_PYTHON_IMPORT_WATCH_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "tracer/record/export.h"

namespace torchtrace {

// Calls `after` once, with the GIL held and no exception set, when the code of
// `module` (a dotted name) has run to its end, or at once when that has happened
// before. `after` must not throw, and leaves no Python exception set. A module
// may be watched for several times. `owner` is for UnwatchImports; null: for ever.
TORCHTRACE_EXPORT absl::Status WatchImport(const std::string& module, std::function<void()> after,
                                           const void* owner = nullptr);

// Whether the module's code raised the last time it ran, while it was watched for.
TORCHTRACE_EXPORT bool ImportFailed(const std::string& module);

// Waits no longer for what `owner` waits for.
TORCHTRACE_EXPORT void UnwatchImports(const void* owner);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_IMPORT_WATCH_H_
