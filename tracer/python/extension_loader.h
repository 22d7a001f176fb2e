// The runtime's own modules: found, and loaded.

#ifndef TORCHTRACE_TRACER_PYTHON_EXTENSION_LOADER_H_
#define TORCHTRACE_TRACER_PYTHON_EXTENSION_LOADER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

// Makes `import torchtrace` work in a program that torchtrace runs, without anything
// installed: the package that came with the runtime library is found where no other
// module of that name is. The program's sys.path and sys.meta_path stay as they are.

// Puts a native callable around PathFinder.find_spec, the last one to be asked. Needs
// the GIL; Python errors are cleared. Nothing where the package isn't there.
void OfferPythonModule();

// Dialects that are written in Python, for `torchtrace run --dialect module:Class`. They
// are imported when the program is about to start: its sys.path is complete then.

inline bool IsExtensionName(const std::string& dialect) { return dialect.find(':') != std::string::npos; }

// Calls `before` once, with the GIL, right before the program's first line runs. When it
// returns false, the program doesn't start and Python exits with that code instead.
// After Python was initialised.
bool BeforeProgramStarts(std::function<bool()> before, int exit_code);

// Imports the dialect by the package torchtrace, which registers it. Returns its levels.
// Errors are sentences for the user.
absl::StatusOr<std::vector<int>> LoadExtension(const std::string& dialect);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_EXTENSION_LOADER_H_
