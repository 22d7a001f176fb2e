// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/followed_run.h"

#include <Python.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "serialize/base/files.h"
#include "tracer/launch/follow_task.h"
#include "tracer/launch/run_ending.h"
#include "tracer/launch/runtime_api.h"
#include "tracer/python/launcher.h"

namespace torchtrace {
namespace {

struct FollowedRun {
  FollowTask task;
  std::string log, task_path, options, metadata, python_version;
  std::unique_ptr<FolderLock> lock;
  RuntimeRequest request = {};

  // Another run may have taken the folder.
  bool IsStillOurs() const { return access(task_path.c_str(), F_OK) == 0; }

  void RenderIfLast() {
    // Where there are no locks the run's own process renders, and each would be the last.
    if (!lock->held()) return;
    lock = FolderLock::TakeAlone(std::move(lock));
    if (lock != nullptr && IsStillOurs()) RunEnding(task.ending).Finish();
    lock.reset();
  }

  static void Ended(const RuntimeEnd* end, void* context) {
    if (end->provisional == 0) ForkEnded(context);
  }
  static void ForkEnded(void* context) { static_cast<FollowedRun*>(context)->RenderIfLast(); }
};

}  // namespace

absl::StatusOr<int> RunFollowed(std::string_view task_text, int argc, char** argv) {
  auto run = std::make_unique<FollowedRun>();
  absl::StatusOr<FollowTask> task = ParseFollowTask(task_text);
  if (!task.ok()) return task.status();
  run->task = *std::move(task);
  run->task.ending.recording.quiet = true;
  run->log = run->task.ending.folder + "/log";
  run->task_path = FollowTaskPath(run->log, run->task.run);
  absl::StatusOr<std::unique_ptr<FolderLock>> lock = FolderLock::Share(run->log);
  if (!lock.ok()) return lock.status();
  run->lock = *std::move(lock);
  if (!run->IsStillOurs()) return absl::FailedPreconditionError("its run's trace was replaced by another one");

  const std::string version = Py_GetVersion();
  run->python_version = version.substr(0, version.find(' '));
  run->options = FormatRecordingOptions(run->task.ending.recording);
  run->metadata = FormatFollowedMetadata(run->task, std::vector<std::string>(argv, argv + argc), run->python_version);
  RuntimeRequest& request = run->request;
  request.api_version = kRuntimeApiVersion;
  request.followed = 1;
  request.argc = argc;
  request.argv = argv;
  request.python_version = run->python_version.c_str();
  request.package_version = "";
  request.options_json = run->options.c_str();
  request.log_folder = run->log.c_str();
  request.metadata_json = run->metadata.c_str();
  request.ended = FollowedRun::Ended;
  request.fork_ended = FollowedRun::ForkEnded;
  request.context = run.get();
  absl::StatusOr<int> exit_code = RunProgram(request);
  // An exit handler may still report the end.
  if (exit_code.ok()) static_cast<void>(run.release());
  return exit_code;
}

}  // namespace torchtrace
