// The folder that a verb writes a trace to, and the files in it.

#ifndef TORCHTRACE_CMD_READING_NEW_TRACE_FOLDER_H_
#define TORCHTRACE_CMD_READING_NEW_TRACE_FOLDER_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cmd/reading/reading_options.h"
#include "serialize/base/files.h"

namespace torchtrace {

// An output folder that appears whole or not at all: it is written under a
// temporary name beside its own, and gets that at Commit. Ctrl-C, SIGTERM and a
// terminal that goes away leave nothing either; a folder that it replaces stays until then.
// One thread uses it; signals may come at any time.

struct NewTraceFolderOptions {
  // The trace in the folder is replaced, and what else is there is kept. Else it must be empty.
  bool force = false;
  // Others may read the trace, as the umask has it.
  bool readable = false;
};

class NewTraceFolder {
 public:
  // `folder` as the user named it. A folder that a traced program still writes is refused. What
  // this process creates from here on, anywhere, is private unless it is to be `readable`.
  static absl::StatusOr<std::unique_ptr<NewTraceFolder>> Create(const std::string& folder,
                                                                const NewTraceFolderOptions& options = {});
  ~NewTraceFolder() = default;  // without Commit: takes everything away
  NewTraceFolder(const NewTraceFolder&) = delete;
  NewTraceFolder& operator=(const NewTraceFolder&) = delete;

  // Where to write. It has a log/, empty.
  const std::string& path() const { return temporary_; }

  // Names the folder as the user did, where the text names path().
  std::string Shown(std::string_view text) const;
  absl::Status Shown(const absl::Status& status) const;

  absl::Status Commit();

 private:
  NewTraceFolder(std::string folder, bool force, std::string target)
      : folder_(std::move(folder)), force_(force), target_(std::move(target)), temporary_(TemporaryName(target_)) {}

  absl::Status NotEmpty() const;
  // Refuses a folder that a program still writes, and while it's held lets none begin. Null
  // where there is no trace.
  absl::StatusOr<std::unique_ptr<FolderLock>> LockOld() const;
  absl::Status Replace();

  const std::string folder_;  // as it was named
  const bool force_;
  const std::string target_;     // absolute, without links
  const std::string temporary_;  // the same
  std::unique_ptr<Unfinished> unfinished_;
};

// True when `path` is `folder` or lies in it, links followed.
bool LiesIn(const std::string& path, const std::string& folder);

// Refuses an input that the output would replace.
absl::Status CheckInput(const std::string& input, const std::string& output_folder);

// What a verb that makes a trace of others writes beside the new log: the rendered files,
// and run.json. Of one thread.

// `folder` holds the log, complete, and isn't committed yet; `name` is how the user named
// it. Returns the lines that tell of the trace.
absl::StatusOr<std::vector<std::string>> WriteNewTraceFiles(const NewTraceFolder& folder, const std::string& name,
                                                            const RenderingOptions& options);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_READING_NEW_TRACE_FOLDER_H_
