// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/session.h"

#include <Python.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tracer/python/levels.h"
#include "tracer/python/program_end.h"
#include "tracer/python/python_stack.h"
#include "tracer/record/fatal_signals.h"

namespace torchtrace {

absl::Status CheckDialect(const std::string& name, const std::string& package_version, const std::vector<int>& levels) {
  const FrameworkDialect* const dialect = FindDialect(name);
  if (dialect == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown dialect '", name, "': this build knows ", absl::StrJoin(DialectNames(), ", ")));
  }
  if (!package_version.empty() && !dialect->required_version().empty() &&
      package_version != dialect->required_version()) {
    return absl::FailedPreconditionError(absl::StrCat("this runtime was built for ", dialect->package(), " ",
                                                      dialect->required_version(), ", not for ", package_version));
  }
  return CheckLevels(*dialect, levels);
}

std::function<std::unique_ptr<ThreadStack>()> PythonStacksFor(const std::string& dialect) {
  return [dialect] {
    // One that is written in Python is known when its first call is.
    const FrameworkDialect* const known = FindDialect(dialect);
    std::vector<std::string> libraries;
    if (known != nullptr) libraries.push_back(known->package());
    // Its wrappers stand between the program and the library.
    if (const size_t colon = dialect.find(':'); colon != std::string::npos)
      libraries.push_back(dialect.substr(0, colon));
    return MakePythonStack(std::move(libraries));
  };
}

absl::Status BeginSession(SessionOptions options) {
  const RecordingOptions recording = options.recorder.recording;
  FrameworkDialect* const dialect = FindDialect(recording.dialect);
  if (dialect == nullptr) return CheckDialect(recording.dialect, "", {});
  options.recorder.make_stack = PythonStacksFor(recording.dialect);
  if (absl::Status status = Recorder::Start(std::move(options.recorder)); !status.ok()) return status;

  WatchBusErrors();
  ProgramEndOptions end;
  end.before_finalization = DisarmLevels;
  end.ended = std::move(options.ended);
  WatchProcessExit(std::move(end));
  absl::Status status = WatchInterpreterExit(/*signals=*/false);
  if (status.ok()) status = ArmLevels(dialect, recording);
  PyErr_Clear();
  // The package may have been imported before: then the hooks are in.
  if (status.ok() && Recorder::Get()->stopped())
    status = absl::InternalError(std::string(Recorder::Get()->stop_reason()));
  if (!status.ok()) EndSession();
  return status;
}

void EndSession() {
  if (!Recorder::SessionIsOn()) return;
  DisarmLevels();
  UnwatchProcessExit();
  Recorder::Get()->Finish({.exit_code = 0, .signal = 0, .program_goes_on = true});
  UnwatchBusErrors();
  ReleaseHeldCode();
  PyErr_Clear();
}

}  // namespace torchtrace
