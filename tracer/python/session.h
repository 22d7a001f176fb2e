// A session, from the start of tracing to its end, and the levels that are installed during it. Needs the GIL.

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

// InvalidArgument, with a sentence for the user, if this build of `dialect` can't trace one of the levels.
absl::Status CheckLevels(const FrameworkDialect& dialect, const std::vector<int>& levels);

// Arms the levels of a dialect: creates and installs its hooks when the program has imported the dialect's package;
// they are uninstalled in reverse order when the session ends. A failure stops tracing, never the program. Call it once
// per session, when Python is initialised and Recorder::Start was called.
absl::Status ArmLevels(FrameworkDialect* dialect, const RecordingOptions& options);

// Uninstalls the hooks. Idempotent.
void DisarmLevels();

// Checks what can be checked before anything starts: this build has the dialect and its levels, and can trace this
// version of its package (empty: not installed).
TORCHTRACE_EXPORT absl::Status CheckDialect(const RecordingOptions& options, const std::string& package_version);

// A session is the time in which calls are recorded into one trace: a program's whole life with `torchtrace run`, or
// one torchtrace.trace(). The sessions of a process don't overlap.
struct SessionOptions {
  RecorderOptions recorder;
  // Called if the program ends during the session: see RuntimeRequest::ended.
  std::function<void(const RuntimeEnd&)> ended;
};

// Makes RecorderOptions::make_stack, for stacks of Python code.
TORCHTRACE_EXPORT std::function<std::unique_ptr<ThreadStack>()> PythonStacksFor(const std::string& dialect);

// Sets the recorder's callbacks for the program's stacks, its threads' names, and its forked processes' ranks.
void LetRecorderAsk(const std::string& dialect, RecorderOptions* options);

// Begins a session in a running interpreter. After an error there is no session and no hook.
TORCHTRACE_EXPORT absl::Status BeginSession(SessionOptions options);

// Uninstalls the hooks and closes the log; does nothing if no session is active. The program goes on.
TORCHTRACE_EXPORT void EndSession();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_SESSION_H_
