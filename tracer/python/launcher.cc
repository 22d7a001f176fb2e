// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/launcher.h"

#include <Python.h>
#include <dlfcn.h>
#include <sys/prctl.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tracer/follow/follow.h"
#include "tracer/framework_dialect.h"
#include "tracer/python/extension_loader.h"
#include "tracer/python/program_end.h"
#include "tracer/python/session.h"
#include "tracer/record/fatal_signals.h"
#include "tracer/record/recorder.h"
#include "tracer/record/recording_options.h"

namespace torchtrace {
namespace {

// A failure only stops tracing.
void Arm(const RecordingOptions& options) {
  if (absl::Status armed = ArmLevels(FindDialect(options.dialect), options); !armed.ok()) {
    Recorder::Get()->Stop(std::string(armed.message()));
  }
}

// The exit code of `run` if the program wasn't started.
constexpr int kNotStarted = 125;

// Called when the program is about to start; an error is the reason not to start it.
absl::Status Starting(const RuntimeRequest& request) {
  char error[4096] = "";
  if (request.starting == nullptr || request.starting(request.context, error, sizeof error) == 0) {
    return absl::OkStatus();
  }
  return absl::InternalError(error);
}

// The same for a dialect that is not loaded yet.
absl::Status StartingWithExtension(const RuntimeRequest& request, RecordingOptions options) {
  absl::StatusOr<std::vector<int>> levels = LoadExtension(options.dialect);
  absl::Status status = levels.status();
  if (status.ok() && options.levels.empty()) options.levels = *levels;
  if (status.ok()) status = CheckLevels(*FindDialect(options.dialect), options.levels);
  if (status.ok()) status = Starting(request);
  if (status.ok()) Arm(options);
  return status;
}

void NotStarted() {
  UnwatchProcessExit();
  Recorder::Get()->Finish({.exit_code = kNotStarted});
}

// In the list of what isn't followed: a child whose recording stopped has no log that says so.
void NoteEnd(const RuntimeRequest& request) {
  const auto note = reinterpret_cast<NoteNotFollowedFunction>(dlsym(RTLD_DEFAULT, kNoteNotFollowedName));
  if (note == nullptr) return;
  const std::string why(Recorder::Get()->stop_reason());
  if (why.empty() || Recorder::Get()->has_log()) return note(nullptr, nullptr);
  note(absl::StrJoin(request.argv, request.argv + request.argc, " ").c_str(), why.c_str());
}

// C code ends the process by _exit, perhaps in a signal handler.
void EndedByC(int status) { Recorder::Get()->FinishFromExit(status & 0xff); }

// Tools that list processes and threads show this name; python's is its file name.
void TakeProcessName(const char* python) {
  const std::string path = python;
  prctl(PR_SET_NAME, path.substr(path.rfind('/') + 1).c_str());
}

// From now on: torchtrace itself may have started programs before.
void FollowStarted(const RuntimeRequest& request) {
  const auto follow = reinterpret_cast<FollowFunction>(dlsym(RTLD_DEFAULT, kFollowName));
  const bool wanted = request.followed != 0 || request.follow_task != nullptr;
  if (wanted && follow != nullptr && follow(request.follow_task, request.follow_library)) Recorder::Get()->SetFollows();
  const auto watch_exit = reinterpret_cast<WatchExitFunction>(dlsym(RTLD_DEFAULT, kWatchExitName));
  if (watch_exit != nullptr) watch_exit(EndedByC);
}

// What CPython's own main does up to running the program.
PyStatus InitializePython(int argc, char** argv) {
  PyPreConfig preconfig;
  PyPreConfig_InitPythonConfig(&preconfig);
  PyStatus status = Py_PreInitializeFromBytesArgs(&preconfig, argc, argv);
  if (PyStatus_Exception(status)) return status;
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  status = PyConfig_SetBytesArgv(&config, argc, argv);
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  return status;
}

absl::Status Check(const RuntimeRequest& request, const RecordingOptions& options) {
  // What the runtime is compiled against is the same in all releases of a minor version.
  const std::string python = absl::StrCat(PY_MAJOR_VERSION, ".", PY_MINOR_VERSION);
  if (!absl::StartsWith(request.python_version, python + ".")) {
    return absl::FailedPreconditionError(
        absl::StrCat("this runtime was built for Python ", python, ", not for ", request.python_version));
  }
  // A dialect written in Python is only known when the program starts.
  if (IsExtensionName(options.dialect)) return absl::OkStatus();
  return CheckDialect(options, request.package_version);
}

}  // namespace

absl::Status CheckRequest(const RuntimeRequest& request) {
  const absl::StatusOr<RecordingOptions> options = ParseRecordingOptions(request.options_json);
  return options.ok() ? Check(request, *options) : options.status();
}

absl::StatusOr<int> RunProgram(const RuntimeRequest& request) {
  const absl::StatusOr<RecordingOptions> options = ParseRecordingOptions(request.options_json);
  if (!options.ok()) return options.status();
  if (absl::Status status = Check(request, *options); !status.ok()) return status;
  RecorderOptions recorder_options;
  recorder_options.recording = *options;
  recorder_options.log_folder = request.log_folder;
  recorder_options.metadata_json = request.metadata_json;
  recorder_options.waits_for_calls = request.followed != 0;
  LetRecorderAsk(options->dialect, &recorder_options);
  if (absl::Status status = Recorder::Start(std::move(recorder_options)); !status.ok()) return status;

  ProgramEndOptions end;
  end.before_finalization = DisarmLevels;
  end.ended = [&request](const RuntimeEnd& how) {
    if (!how.provisional) ChangeFatalSignalMessage(nullptr);
    if (!how.provisional) NoteEnd(request);
    if (request.ended != nullptr) request.ended(&how, request.context);
    if (how.provisional) ChangeFatalSignalMessage(request.late_signal_message);
  };
  end.fork_ended = [&request] {
    if (request.fork_ended != nullptr) request.fork_ended(request.context);
  };
  WatchProcessExit(std::move(end));

  if (request.followed == 0) TakeProcessName(request.argv[0]);
  const PyStatus status = InitializePython(request.argc, request.argv);
  if (PyStatus_IsExit(status)) {  // as `python --version`
    return ProgramReturned(status.exitcode);
  }
  if (PyStatus_Exception(status)) Py_ExitStatusException(status);

  // None of these may stop the program.
  Recorder* const recorder = Recorder::Get();
  if (absl::Status watched = WatchInterpreterExit(/*signals=*/true); !watched.ok())
    recorder->Stop(std::string(watched.message()));
  WatchFatalSignals(request.signal_message);
  WatchBusErrors();
  OfferPythonModule();
  absl::Status starts;
  const auto start_with_extension = [&] {
    starts = StartingWithExtension(request, *options);
    if (!starts.ok()) NotStarted();
    return starts.ok();
  };
  if (!IsExtensionName(options->dialect)) {
    starts = Starting(request);
    if (starts.ok()) Arm(*options);
  } else if (!BeforeProgramStarts(start_with_extension, kNotStarted)) {
    starts = absl::InternalError("Python takes no audit hook");
  }
  PyErr_Clear();
  if (!starts.ok()) {
    NotStarted();
    return starts;
  }

  FollowStarted(request);
  const int exit_code = Py_RunMain();
  if (!starts.ok()) return starts;
  return ProgramReturned(exit_code);
}

}  // namespace torchtrace
