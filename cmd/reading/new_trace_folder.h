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

struct NewTraceFolderOptions {
  // Replace the trace in the folder, and keep everything else there. Without it the folder must be empty.
  bool force = false;
  // Let others read the trace, as far as the umask allows.
  bool readable = false;
};

// An output folder that appears complete or not at all: it is written under a temporary name in the same parent folder,
// and Commit renames it. Ctrl-C, SIGTERM and the end of the terminal leave nothing either; a folder that it replaces
// stays until Commit. For one thread; signals may arrive at any time.
class NewTraceFolder {
 public:
  // `folder` as the user named it. Refuses a folder that a traced program still writes to. Everything that this process
  // creates from now on, anywhere, is private unless `readable` is set.
  static absl::StatusOr<std::unique_ptr<NewTraceFolder>> Create(const std::string& folder,
                                                                const NewTraceFolderOptions& options = {});
  ~NewTraceFolder() = default;  // without Commit: removes everything
  NewTraceFolder(const NewTraceFolder&) = delete;
  NewTraceFolder& operator=(const NewTraceFolder&) = delete;

  // Where to write; has an empty log/.
  const std::string& path() const { return temporary_; }

  // Replaces path() in the text by the user's name of the folder.
  std::string Shown(std::string_view text) const;
  absl::Status Shown(const absl::Status& status) const;

  absl::Status Commit();

 private:
  NewTraceFolder(std::string folder, bool force, std::string target)
      : folder_(std::move(folder)), force_(force), target_(std::move(target)), temporary_(TemporaryName(target_)) {}

  absl::Status NotEmpty() const;
  // Refuses a folder that a program still writes to; while the lock is held, none can begin. Null if there is no trace.
  absl::StatusOr<std::unique_ptr<FolderLock>> LockOld() const;
  absl::Status Replace();

  const std::string folder_;  // as the user named it
  const bool force_;
  const std::string target_;     // absolute, without links
  const std::string temporary_;  // beside target_
  std::unique_ptr<Unfinished> unfinished_;
};

// True when `path` is `folder` or is inside it, after following links.
bool LiesIn(const std::string& path, const std::string& folder);

// Refuses an input that the output would replace.
absl::Status CheckInput(const std::string& input, const std::string& output_folder);

// Writes what belongs to the new log of a verb that makes a trace of others: the rendered files and run.json. `folder`
// holds the complete log and isn't committed yet; `name` is the user's name of it. Returns lines that summarize the
// trace. Uses one thread.
absl::StatusOr<std::vector<std::string>> WriteNewTraceFiles(const NewTraceFolder& folder, const std::string& name,
                                                            const RenderingOptions& options);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_READING_NEW_TRACE_FOLDER_H_
