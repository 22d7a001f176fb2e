// Reports when a Python module has been imported. All of Python's loaders run a module's code through one method; while
// modules are watched, that method is a native callable around the original. So the program's finders and loaders stay
// as they are, no frame of ours is in a traceback, and `after` runs before any other thread can use the module,
// whichever thread imports it. A failed import is ignored; a later one is seen.
//
// Not seen: a module with a loader other than Python's that runs the code itself. Needs the GIL.

#ifndef TORCHTRACE_TRACER_PYTHON_IMPORT_WATCH_H_
#define TORCHTRACE_TRACER_PYTHON_IMPORT_WATCH_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "tracer/record/export.h"

namespace torchtrace {

// Calls `after` once, with the GIL held and no exception set, when the code of `module` (a dotted name) has run to its
// end, or right away if that has happened before. `after` must not throw or leave a Python exception set. A module may
// be watched several times. `owner` is for UnwatchImports; null: watch for ever.
TORCHTRACE_EXPORT absl::Status WatchImport(const std::string& module, std::function<void()> after,
                                           const void* owner = nullptr);

// Whether the module's code raised the last time it ran while it was watched.
TORCHTRACE_EXPORT bool ImportFailed(const std::string& module);

// Removes the watches of `owner`.
TORCHTRACE_EXPORT void UnwatchImports(const void* owner);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_IMPORT_WATCH_H_
