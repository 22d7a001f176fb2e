// The folder that a run or a torchtrace.trace() writes its trace to. One process gets it:
// whoever creates its log/, or, over an earlier trace, takes its lock (serialize/base/files.h).
// Links in it are refused: they are never followed, nor removed through.

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

// Replaces %p by the process id, %h by the host's name, %r by the rank that the
// environment tells (0 when it tells none), %% by %. InvalidArgument for others, and for
// a rank or host that could lead elsewhere.
absl::StatusOr<std::string> ExpandOutputName(const std::string& name);

struct OutputFolderOptions {
  // What an earlier run wrote there goes, and nothing else. Else what is not empty is refused.
  bool force = false;
  // Others may read the folder, as the umask has it.
  bool readable = false;
  // What to do about a folder that is refused, as the one who named it can do it.
  const char* another = "give another with -o";
  const char* occupied = "--force overwrites the trace in it, -o gives another";
};

class OutputFolder {
 public:
  // Creates `folder` (absolute) and its log/ where they are missing; an earlier trace stays for
  // now. AlreadyExists where the folder is not to be had.
  static absl::StatusOr<std::unique_ptr<OutputFolder>> Claim(const std::string& folder,
                                                             const OutputFolderOptions& options = {});
  // Others may claim it from now on.
  ~OutputFolder() = default;
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // What starts now will be there in place of the earlier trace.
  absl::Status RemoveEarlierTrace();

  // Nothing was started: takes away what was created since Claim, and leaves an earlier trace.
  void Drop();

 private:
  OutputFolder(std::string folder, const OutputFolderOptions& options)
      : folder_(std::move(folder)), log_(folder_ + "/log"), options_(options) {}

  absl::Status Create();
  absl::Status TakeLock();
  // Notes the files of an earlier trace.
  absl::Status Survey(const std::vector<std::string>& names);
  absl::Status Occupied(absl::string_view why) const;

  const std::string folder_;
  const std::string log_;
  const OutputFolderOptions options_;
  bool created_folder_ = false;
  bool created_log_ = false;
  bool claimed_ = false;
  std::vector<std::string> earlier_files_;
  std::vector<std::string> earlier_logs_;
  std::unique_ptr<FolderLock> lock_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_LAUNCH_OUTPUT_FOLDER_H_
