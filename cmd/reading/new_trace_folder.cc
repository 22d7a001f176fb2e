#include "cmd/reading/new_trace_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cmd/cli/output.h"
#include "cmd/reading/reading_options.h"
#include "nlohmann/json.hpp"
#include "serialize/log/log_trace.h"
#include "serialize/render/render.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

absl::Status Failed(std::string_view what, const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", std::string(what), " ", path));
}

// Moves everything except a trace's own files from `old` to `folder`. False if some could not be moved.
bool KeepOthers(const fs::path& old, const fs::path& folder, bool is_log) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(old, error), end; !error && entry != end; entry.increment(error)) {
    entries.push_back(entry->path());
  }
  bool all = !error;
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    if (!is_log && name == "log" && fs::is_directory(fs::symlink_status(entry, error))) {
      all = KeepOthers(entry, folder / name, true) && all;
      continue;
    }
    const bool ours = is_log ? entry.extension() == ".ttlog" || name == FolderLock::kName : IsRenderedFileName(name);
    if (ours) continue;
    fs::rename(entry, folder / name, error);
    all = all && !error;
  }
  return all;
}

}  // namespace

bool LiesIn(const std::string& path, const std::string& folder) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(path, error);
  const fs::path outer = fs::weakly_canonical(folder, error);
  auto at = inner.begin();
  for (const fs::path& part : outer) {
    if (part.empty()) continue;  // the name ends with a slash
    if (at == inner.end() || *at != part) return false;
    ++at;
  }
  return true;
}

absl::Status CheckInput(const std::string& input, const std::string& output_folder) {
  if (input == "-") return absl::OkStatus();
  if (LiesIn(input, output_folder)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the input ", input, " is in the output folder ", output_folder, "; give another with -o"));
  }
  // The trace would become one of the input's logs.
  const fs::path logs = fs::path(input) / "log";
  std::error_code error;
  if (fs::is_directory(logs, error) && LiesIn(output_folder, logs.string())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the output folder ", output_folder, " is in the input ", input, "; give another with -o"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NewTraceFolder>> NewTraceFolder::Create(const std::string& folder,
                                                                       const NewTraceFolderOptions& options) {
  if (folder.empty()) return absl::InvalidArgumentError("the output folder's name is empty");
  std::error_code error;
  fs::path target = fs::absolute(folder, error);
  if (!error) target = fs::weakly_canonical(target, error);
  if (!target.has_filename()) target = target.parent_path();
  if (error) return Failed("find the output folder", folder, error.value());
  std::unique_ptr<NewTraceFolder> result(new NewTraceFolder(folder, options.force, target.string()));
  struct stat is, parent_is;
  const bool exists = stat(target.c_str(), &is) == 0;
  if (exists) {
    if (!S_ISDIR(is.st_mode)) {
      return absl::AlreadyExistsError(absl::StrCat("the output folder ", folder, " is a file; give another with -o"));
    }
    const bool empty = fs::is_empty(target, error);
    if (error) return Failed("read the output folder", folder, error.value());
    if (!empty && !options.force) return result->NotEmpty();
    // Commit renames it.
    if (LiesIn(".", target.string()) || !target.has_relative_path()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the output folder ", folder, " holds the current folder; give another with -o"));
    }
    if (stat(target.parent_path().c_str(), &parent_is) == 0 && is.st_dev != parent_is.st_dev) {
      return absl::InvalidArgumentError(
          absl::StrCat("the output folder ", folder, " is the root of a file system; give a folder in it with -o"));
    }
    if (const auto lock = result->LockOld(); !lock.ok()) return lock.status();
  }
  std::string created;  // the outermost parent folder that does not exist yet
  for (fs::path around = target.parent_path(); !fs::exists(around, error); around = around.parent_path()) {
    created = around.string();
  }
  CleanUpOnSignals();
  result->unfinished_ = std::make_unique<Unfinished>(created.empty() ? result->temporary_ : created, Unfinished::kTree);
  fs::create_directories(target.parent_path(), error);
  if (!options.readable) umask(umask(0) | 077);
  for (const std::string& made : {result->temporary_, result->temporary_ + "/log"}) {
    if (mkdir(made.c_str(), 0777) != 0) return Failed("create the output folder", folder, errno);
  }
  return result;
}

absl::Status NewTraceFolder::NotEmpty() const {
  return absl::AlreadyExistsError(absl::StrCat("the output folder ", folder_,
                                               " is not empty; --force overwrites the trace in it, -o gives another"));
}

absl::StatusOr<std::unique_ptr<FolderLock>> NewTraceFolder::LockOld() const {
  absl::StatusOr<std::unique_ptr<FolderLock>> lock = FolderLock::Take(target_ + "/log");
  if (lock.ok()) return lock;
  if (absl::IsNotFound(lock.status())) return nullptr;
  if (absl::IsAlreadyExists(lock.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat("the output folder ", folder_, " ", lock.status().message(), ", or give another with -o"));
  }
  return absl::Status(lock.status().code(), absl::StrCat("the output folder ", folder_, " holds no trace: ",
                                                         lock.status().message(), "; give another with -o"));
}

std::string NewTraceFolder::Shown(std::string_view text) const {
  return absl::StrReplaceAll(absl::string_view(text.data(), text.size()), {{temporary_, folder_}});
}

absl::Status NewTraceFolder::Shown(const absl::Status& status) const {
  if (status.ok()) return status;
  const absl::string_view message = status.message();
  return absl::Status(status.code(), Shown(std::string_view(message.data(), message.size())));
}

absl::Status NewTraceFolder::Commit() {
  const auto lock = Unfinished::Lock();
  // Also replaces an empty folder.
  if (rename(temporary_.c_str(), target_.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) return Failed("write", folder_, errno);
    if (!force_) return NotEmpty();  // filled since Create
    const absl::StatusOr<std::unique_ptr<FolderLock>> lock = LockOld();
    if (!lock.ok()) return lock.status();
    if (absl::Status s = Replace(); !s.ok()) return s;
  }
  unfinished_->Complete();
  return absl::OkStatus();
}

// Removes the old trace only when the new one is in its place.
absl::Status NewTraceFolder::Replace() {
  std::string old = temporary_;
  if (renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
    // Not every file system can exchange two folders.
    old += ".old";
    if (rename(target_.c_str(), old.c_str()) != 0) return Failed("replace", folder_, errno);
    if (rename(temporary_.c_str(), target_.c_str()) != 0) {
      const int error = errno;
      if (rename(old.c_str(), target_.c_str()) != 0) {
        return absl::InternalError(absl::StrCat("cannot replace ", folder_, "; its former content is now in ", old));
      }
      return Failed("replace", folder_, error);
    }
  }
  if (std::error_code error; KeepOthers(old, target_, false)) fs::remove_all(old, error);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> WriteNewTraceFiles(const NewTraceFolder& folder, const std::string& name,
                                                            const RenderingOptions& options) {
  ReadingProgress progress(options.quiet, 1, "rendering");
  const absl::StatusOr<std::unique_ptr<Trace>> trace = OpenLogs(folder.path(), progress.NextObserver());
  if (!trace.ok()) return folder.Shown(trace.status());
  RenderOptions render;
  options.Apply(&render);
  render.folder = folder.path();
  render.trace_path = name;
  const absl::StatusOr<RenderReport> report = Render(trace->get(), render);
  if (!report.ok()) return folder.Shown(report.status());
  const absl::Status written = WriteRunInfo(BuildRunInfo(**trace, report->statistics, &*report), folder.path());
  if (!written.ok()) return folder.Shown(written);
  if (options.quiet) return std::vector<std::string>();
  return SummaryLines(**trace, report->statistics, &*report, name);
}

}  // namespace torchtrace
