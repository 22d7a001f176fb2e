// The folder that a run or a torchtrace.trace() writes its trace to. Only one process gets it: the one that creates its
// log/, or, for an earlier trace's folder, takes its lock (serialize/base/files.h). Others of its job may join it.
// Refuses links in it: they are never followed, and nothing is removed through them.

#ifndef TORCHTRACE_TRACER_LAUNCH_OUTPUT_FOLDER_H_
#define TORCHTRACE_TRACER_LAUNCH_OUTPUT_FOLDER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/base/files.h"

namespace torchtrace {

// Replaces %p by the process id (this process's, if it isn't given), %h by the host's name, %r by the rank in the
// environment (0 if there is none), %% by %. InvalidArgument for others, and for a rank or host that could lead to
// another folder.
absl::StatusOr<std::string> ExpandOutputName(const std::string& name, int pid = 0);

struct OutputFolderOptions {
  // Removes what an earlier run wrote there, and nothing else. Otherwise a folder that isn't empty is refused.
  bool force = false;
  // Other users may read the folder, as the umask allows.
  bool readable = false;
  // The id of a run to which other processes belong that claim the folder for it: then they join who was first. Empty:
  // the process is alone.
  std::string job_run = {};
  // Advice for a refused folder, for error messages.
  const char* another = "give another with -o";
  const char* occupied = "--force overwrites the trace in it, -o gives another";
};

class OutputFolder {
 public:
  // Creates `folder` (absolute) and its log/ if they are missing; keeps an earlier trace for now. AlreadyExists if the
  // folder is refused. Waits while who was first in the job starts its program.
  static absl::StatusOr<std::unique_ptr<OutputFolder>> Claim(const std::string& folder,
                                                             const OutputFolderOptions& options = {});
  // Another process may claim the folder from now on.
  ~OutputFolder() = default;
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // Another process of the job was first: there is nothing to remove, and the folder is shared already.
  bool joined() const { return joined_; }

  // Call it when the program starts, whose trace replaces the earlier one.
  absl::Status RemoveEarlierTrace();

  // Lets other processes of the run write logs into it. AlreadyExists: another run has claimed it meanwhile.
  absl::Status Share();
  // Whether no other process writes logs into it any more; then none can begin to. Else they may go on without this
  // one.
  bool TakeAlone();
  // False: the file system has no locks, and each process is alone.
  bool locks() const { return lock_ == nullptr || lock_->held(); }

  // Call it if nothing was started: removes what was created since Claim, and keeps an earlier trace.
  void Drop();

 private:
  OutputFolder(std::string folder, const OutputFolderOptions& options)
      : folder_(std::move(folder)), log_(folder_ + "/log"), options_(options) {}

  absl::Status Create();
  absl::Status CreateJob();
  // Joins the job's other processes. NotFound: there are none.
  absl::Status Join();
  absl::Status TakeLock();
  // Lists the files of an earlier trace.
  absl::Status Survey(const std::vector<std::string>& names);
  absl::Status Occupied(absl::string_view why) const;

  const std::string folder_;
  const std::string log_;
  const OutputFolderOptions options_;
  bool created_folder_ = false;
  bool created_log_ = false;
  bool claimed_ = false;
  bool joined_ = false;
  std::vector<std::string> earlier_files_;
  std::vector<std::string> earlier_logs_;
  std::unique_ptr<FolderLock> lock_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_LAUNCH_OUTPUT_FOLDER_H_
