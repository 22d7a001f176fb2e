// Arms the levels of a dialect: its hooks are made and installed when the
// program has imported the dialect's package, and uninstalled in reverse order
// when the session ends. Whatever fails stops tracing, never the program.
// Needs the GIL; owns the hooks.

#ifndef TORCHTRACE_TRACER_PYTHON_LEVELS_H_
#define TORCHTRACE_TRACER_PYTHON_LEVELS_H_

#include "absl/status/status.h"
#include "tracer/framework_dialect.h"

namespace torchtrace {

// InvalidArgument, in a sentence for the user, when this build of `dialect`
// cannot trace one of the levels.
absl::Status CheckLevels(const FrameworkDialect& dialect, const std::vector<int>& levels);

// Once per session, when Python is initialised and Recorder::Start was called.
absl::Status ArmLevels(FrameworkDialect* dialect, const RecordingOptions& options);

// Uninstalls the hooks. Idempotent.
void DisarmLevels();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_LEVELS_H_
