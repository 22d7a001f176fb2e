// Makes the package torchtrace importable, and loads dialects that are written in Python.

#ifndef TORCHTRACE_TRACER_PYTHON_EXTENSION_LOADER_H_
#define TORCHTRACE_TRACER_PYTHON_EXTENSION_LOADER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

// Makes `import torchtrace` work in a program that torchtrace runs, even if it isn't installed: finds the package that
// came with the runtime library, unless there is another module of that name. Doesn't change the program's sys.path and
// sys.meta_path: puts a native callable around PathFinder.find_spec, the last finder called. Does nothing if the
// package doesn't exist. Needs the GIL; clears Python errors.
void OfferPythonModule();

// Dialects written in Python, for `torchtrace run --dialect module:Class`. They are imported when the program is about
// to start, because then its sys.path is complete.
inline bool IsExtensionName(const std::string& dialect) { return dialect.find(':') != std::string::npos; }

// Calls `before` once, with the GIL, right before the program's first line runs. If it returns false, the program
// doesn't start and Python exits with that code instead. Call this after Python was initialised.
bool BeforeProgramStarts(std::function<bool()> before, int exit_code);

// Imports the dialect through the package torchtrace, which registers it. Returns its levels. Errors are sentences for
// the user.
absl::StatusOr<std::vector<int>> LoadExtension(const std::string& dialect);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_EXTENSION_LOADER_H_
