// Runs a program as `python` runs it: the same initialisation from the same command line, then CPython's own main,
// which runs scripts, modules, folders, zips and standard input in the interpreter's own __main__. What python does at
// exit is done as well. Nothing of ours is on the Python stack.

#ifndef TORCHTRACE_TRACER_PYTHON_LAUNCHER_H_
#define TORCHTRACE_TRACER_PYTHON_LAUNCHER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tracer/launch/runtime_api.h"

namespace torchtrace {

// Checks what can be checked in a request before the program starts.
absl::Status CheckRequest(const RuntimeRequest& request);

// Returns the exit code, in the traced process and in any forked child that ends in the same way. Doesn't return if
// python wouldn't. An error: the program was never started.
absl::StatusOr<int> RunProgram(const RuntimeRequest& request);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_LAUNCHER_H_
