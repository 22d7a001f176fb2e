// A session: from a start of tracing to its end, and the levels that are installed meanwhile.

#ifndef TORCHTRACE_TRACER_PYTHON_SESSION_H_
#define TORCHTRACE_TRACER_PYTHON_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tracer/framework_dialect.h"
#include "tracer/launch/runtime_api.h"
#include "tracer/record/export.h"
#include "tracer/record/recorder.h"

namespace torchtrace {

// Arms the levels of a dialect: its hooks are made and installed when the
// program has imported the dialect's package, and uninstalled in reverse order
// when the session ends. Whatever fails stops tracing, never the program.
// Needs the GIL; owns the hooks.

// InvalidArgument, in a sentence for the user, when this build of `dialect`
// cannot trace one of the levels.
absl::Status CheckLevels(const FrameworkDialect& dialect, const std::vector<int>& levels);

// Once per session, when Python is initialised and Recorder::Start was called.
absl::Status ArmLevels(FrameworkDialect* dialect, const RecordingOptions& options);

// Uninstalls the hooks. Idempotent.
void DisarmLevels();

// A session: the time in which calls are recorded into one trace. `torchtrace run`
// makes one of a program's whole life; the Python module makes one of each
// torchtrace.trace(). Sessions of a process come one after another.
// Needs the GIL.

// What can be said before anything starts: the dialect is known, and so are its
// levels, and it can trace this version of its package (empty: not installed).
TORCHTRACE_EXPORT absl::Status CheckDialect(const RecordingOptions& options, const std::string& package_version);

struct SessionOptions {
  RecorderOptions recorder;
  // The program ends with the session on: see RuntimeRequest::ended.
  std::function<void(const RuntimeEnd&)> ended;
};

// Takes the stacks of the calling thread's Python code, for RecorderOptions.
TORCHTRACE_EXPORT std::function<std::unique_ptr<ThreadStack>()> PythonStacksFor(const std::string& dialect);

// Sets what the recorder is to ask the program: its stacks, its threads' names, its forked processes' ranks.
void LetRecorderAsk(const std::string& dialect, RecorderOptions* options);

// Within a running interpreter. An error leaves no session and no hook.
TORCHTRACE_EXPORT absl::Status BeginSession(SessionOptions options);

// Takes the hooks out and closes the log; nothing where no session is on.
// The program goes on.
TORCHTRACE_EXPORT void EndSession();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_SESSION_H_
