// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/session.h"

#include <Python.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/model/levels.h"
#include "tracer/cpython/frames.h"
#include "tracer/launch/run_metadata.h"
#include "tracer/python/import_watch.h"
#include "tracer/python/process_name.h"
#include "tracer/python/program_end.h"
#include "tracer/python/python_stack.h"
#include "tracer/python/thread_names.h"
#include "tracer/record/fatal_signals.h"
#include "tracer/record/recorder.h"

namespace torchtrace {
namespace {

struct Armed {
  std::vector<std::shared_ptr<TracingHook>> hooks;  // those installed
  std::string package;                              // whose import we wait for; empty: it was imported
  uint64_t session = 0;                             // how often levels were armed
  bool armed = false;
  bool wants_package = true;   // its calls are to be recorded
  std::string rank_variables;  // as they were when the session began
};

// Never destroyed: hooks hold Python objects, and Python may be gone by then.
Armed& ArmedSession() {
  static auto* const armed = new Armed;
  return *armed;
}

// Empty: unchanged since the session began.
std::string ChangedRankVariables() {
  std::string now = FormatRankVariables();
  return now == ArmedSession().rank_variables ? "" : now;
}

// Also called if a hook fails to install.
void UninstallAll() {
  // Uninstall runs Python code, so empty the list first.
  const std::vector<std::shared_ptr<TracingHook>> hooks = std::exchange(ArmedSession().hooks, {});
  for (auto hook = hooks.rbegin(); hook != hooks.rend(); ++hook) (*hook)->Uninstall();
}

// False: one failed and recording has stopped, or `session` is over.
bool InstallAll(std::vector<std::unique_ptr<TracingHook>> hooks, uint64_t session) {
  for (std::unique_ptr<TracingHook>& made : hooks) {
    const std::shared_ptr<TracingHook> hook = std::move(made);
    const absl::Status status = hook->Install();
    // Install runs Python code: another thread may have ended the session meanwhile.
    if (!ArmedSession().armed || ArmedSession().session != session) {
      hook->Uninstall();
      return false;
    }
    if (!status.ok()) {
      UninstallAll();
      Recorder::Get()->Stop(absl::StrCat("level ", hook->level(), " cannot be installed: ", status.message()));
      return false;
    }
    ArmedSession().hooks.push_back(hook);
  }
  return true;
}

// `session`: the one that waited for the import.
void Install(FrameworkDialect* dialect, const RecordingOptions& options, uint64_t session) {
  if (!ArmedSession().armed || ArmedSession().session != session) return;
  Recorder* const recorder = Recorder::Get();
  ArmedSession().package.clear();
  if (recorder->stopped()) return;
  auto hooks = dialect->CreateHooks(recorder, options);
  if (!hooks.ok()) {
    recorder->Stop(std::string(hooks.status().message()));
    return;
  }
  InstallAll(*std::move(hooks), session);
}

// Whether calls of the package itself are to be recorded.
bool WantsPackage(const FrameworkDialect& dialect, const RecordingOptions& options) {
  const auto of_package = [&](const std::string& api) { return IsOf(dialect.package(), api); };
  return options.default_apis || options.levels != std::vector<int>{kSetattrLevel} ||
         std::any_of(options.apis.begin(), options.apis.end(), of_package);
}

}  // namespace

absl::Status CheckLevels(const FrameworkDialect& dialect, const std::vector<int>& levels) {
  const std::vector<int> known = dialect.levels();
  for (int level : levels) {
    if (std::find(known.begin(), known.end(), level) != known.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("level ", level, " cannot be traced by this build: of ", dialect.name(), " it can trace ",
                     known.size() == 1 ? "level " : "levels ", absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

absl::Status ArmLevels(FrameworkDialect* dialect, const RecordingOptions& options) {
  ArmedSession().package = dialect->package();
  ArmedSession().wants_package = WantsPackage(*dialect, options);
  ArmedSession().armed = true;
  KeepThreadName(nullptr);
  if (!CheckFrames()) {
    Recorder::Get()->NoteNotSeen(
        "stacks, and functions that ask for overrides: this Python's frames differ from those of the Python that "
        "torchtrace was built for");
  }
  const uint64_t session = ++ArmedSession().session;
  if (!InstallAll(dialect->CreateEarlyHooks(options), session)) return absl::OkStatus();
  return WatchImport(
      dialect->package(), [dialect, options, session] { Install(dialect, options, session); }, &ArmedSession());
}

void DisarmLevels() {
  if (!std::exchange(ArmedSession().armed, false)) return;
  Recorder* const recorder = Recorder::Get();
  if (!ArmedSession().package.empty() && ArmedSession().wants_package && !recorder->forked()) {
    const std::string& package = ArmedSession().package;
    recorder->NoteNotImported(
        absl::StrCat(ArmedSession().hooks.empty() ? "any call" : absl::StrCat("any call of ", package), ": ",
                     ImportFailed(package) ? absl::StrCat("the program's import of ", package, " failed")
                                           : absl::StrCat("the program did not import ", package)));
  }
  UnwatchImports(&ArmedSession());
  UninstallAll();
  TellThreadName();
  recorder->TellProcessName();
  // The program may have set its own rank.
  if (const std::string now = ChangedRankVariables(); !now.empty() && recorder->OwnsEnvironment())
    recorder->AddOwnMetadata(now);
}

absl::Status CheckDialect(const RecordingOptions& options, const std::string& package_version) {
  const FrameworkDialect* const dialect = FindDialect(options.dialect);
  if (dialect == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("unknown dialect '", options.dialect, "': this build knows ",
                                                   absl::StrJoin(RegisteredDialects(), ", ")));
  }
  if (!package_version.empty()) {
    if (absl::Status status = dialect->CheckVersion(package_version, options); !status.ok()) return status;
  }
  return CheckLevels(*dialect, options.levels);
}

std::function<std::unique_ptr<ThreadStack>()> PythonStacksFor(const std::string& dialect) {
  return [dialect] {
    // A dialect written in Python is known by its first call.
    const FrameworkDialect* const known = FindDialect(dialect);
    std::vector<std::string> libraries;
    if (known != nullptr) libraries.push_back(known->package());
    // Its wrappers are between the program and the library.
    if (const size_t colon = dialect.find(':'); colon != std::string::npos)
      libraries.push_back(dialect.substr(0, colon));
    return MakePythonStack(std::move(libraries));
  };
}

void LetRecorderAsk(const std::string& dialect, RecorderOptions* options) {
  options->make_stack = PythonStacksFor(dialect);
  options->name_thread = PythonThreadName;
  options->fork_metadata = ChangedRankVariables;
  options->name_process = PythonProcessName;
  ArmedSession().rank_variables = FormatRankVariables();
}

absl::Status BeginSession(SessionOptions options) {
  const RecordingOptions recording = options.recorder.recording;
  FrameworkDialect* const dialect = FindDialect(recording.dialect);
  if (dialect == nullptr) return CheckDialect(recording, "");
  LetRecorderAsk(recording.dialect, &options.recorder);
  if (absl::Status status = Recorder::Start(std::move(options.recorder)); !status.ok()) return status;

  WatchBusErrors();
  ProgramEndOptions end;
  end.before_finalization = DisarmLevels;
  end.ended = std::move(options.ended);
  WatchProcessExit(std::move(end));
  absl::Status status = WatchInterpreterExit(/*signals=*/false);
  if (status.ok()) status = ArmLevels(dialect, recording);
  PyErr_Clear();
  // If the package was imported before, the hooks were installed already, and may have failed.
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
