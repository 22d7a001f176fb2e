#include "tracer/launch/output_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/log_folder.h"
#include "serialize/base/monotonic_clock.h"
#include "serialize/render/render.h"
#include "tracer/launch/follow_task.h"
#include "tracer/launch/run_metadata.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

// Who joins a job waits so long for the program of who was first to start, and for it to say which job it is of; it
// looks so often.
constexpr int64_t kStartingNs = 60'000'000'000;
constexpr int64_t kNamingNs = 2'000'000'000;
constexpr int kAgainUs = 20'000;

// Checks a part of the folder's name that comes from the environment: it must not lead to another folder, and must be
// printable.
absl::StatusOr<std::string> NamePart(const char* source, const std::string& text) {
  const bool plain = std::none_of(text.begin(), text.end(), [](const char c) {
    const auto byte = static_cast<unsigned char>(c);
    return c == '/' || byte < ' ' || byte > '~';
  });
  if (plain && !text.empty() && text != "." && text != "..") return text;
  return absl::InvalidArgumentError(
      absl::StrCat("the output folder can't be named after ", source, ": it isn't a plain name"));
}

absl::StatusOr<std::string> Rank() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* const value = getenv(name); value != nullptr && *value != '\0') return NamePart(name, value);
  }
  return "0";
}

absl::Status Failed(const char* what, const std::string& path, int error) {
  return absl::InternalError(absl::StrCat("cannot ", what, " ", path, ": ", std::generic_category().message(error)));
}

// An open folder; by default links are not followed. The descriptor is negative if it can't be opened.
class OpenFolder {
 public:
  explicit OpenFolder(const std::string& path, int flags = O_NOFOLLOW)
      : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags)) {}
  ~OpenFolder() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;

  int descriptor() const { return descriptor_; }

  absl::Status Remove(const std::vector<std::string>& names) const {
    for (const std::string& name : names) {
      if (unlinkat(descriptor_, name.c_str(), 0) != 0 && errno != ENOENT) {
        return Failed("remove", absl::StrCat(path_, "/", name), errno);
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const int descriptor_;
};

std::vector<std::string> Names(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  return names;
}

// Whether torchtrace has given a file in log/ its name.
bool IsOfTrace(const std::string& name) {
  return absl::EndsWith(name, kLogSuffix) || absl::EndsWith(name, kUnfinishedLogSuffix) || IsFollowFile(name);
}

}  // namespace

absl::StatusOr<std::string> ExpandOutputName(const std::string& name, int pid) {
  std::string expanded;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%') {
      expanded += name[i];
      continue;
    }
    switch (i + 1 < name.size() ? name[++i] : '\0') {
      case 'p':
        absl::StrAppend(&expanded, pid != 0 ? pid : getpid());
        break;
      case 'h':
      case 'r': {
        const absl::StatusOr<std::string> part = name[i] == 'h' ? NamePart("the host", HostName()) : Rank();
        if (!part.ok()) return part.status();
        expanded += *part;
        break;
      }
      case '%':
        expanded += '%';
        break;
      default:
        return absl::InvalidArgumentError(absl::StrCat("unknown placeholder in the output folder '", name,
                                                       "': there are %p (process id), %h (host), %r (rank) and %%"));
    }
  }
  if (expanded.empty()) return absl::InvalidArgumentError("the output folder's name is empty");
  return expanded;
}

absl::StatusOr<std::unique_ptr<OutputFolder>> OutputFolder::Claim(const std::string& folder,
                                                                  const OutputFolderOptions& options) {
  fs::path path = fs::path(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  for (int64_t begin = MonotonicNowNs();; usleep(kAgainUs)) {
    std::unique_ptr<OutputFolder> result(new OutputFolder(path.string(), options));
    absl::Status status = options.job_run.empty() ? absl::NotFoundError("") : result->Join();
    const bool is_there = !absl::IsNotFound(status);
    if (!is_there) {
      status = result->Create();
      result->claimed_ = status.ok();
    }
    if (status.ok()) return result;
    result->Drop();
    // Who was first may not have said yet which job it is of.
    const int64_t most_ns = options.job_run.empty() ? 0 : is_there ? kStartingNs : kNamingNs;
    if (!absl::IsAlreadyExists(status) || MonotonicNowNs() - begin > most_ns) return status;
  }
}

absl::Status OutputFolder::Join() {
  const std::string task = FollowTaskPath(log_, options_.job_run);
  struct stat is;
  if (lstat(task.c_str(), &is) != 0) return absl::NotFoundError("");
  if (!S_ISREG(is.st_mode) || is.st_uid != geteuid()) return Occupied(absl::StrCat("is not yours; ", options_.another));
  if (absl::Status status = Share(); !status.ok()) return status;
  joined_ = true;
  return absl::OkStatus();
}

// The file of the job's task, empty until its program starts, says whose the folder is.
absl::Status OutputFolder::CreateJob() {
  const std::string task = FollowTaskPath(log_, options_.job_run);
  const int file = CreateNewFile(task, 0600);
  if (file < 0) return Failed("create", task, errno);
  close(file);
  return absl::OkStatus();
}

absl::Status OutputFolder::Occupied(absl::string_view why) const {
  return absl::AlreadyExistsError(absl::StrCat("the output folder ", folder_, " ", why));
}

absl::Status OutputFolder::Create() {
  const mode_t mode = options_.readable ? 0777 : 0700;
  std::error_code error;
  fs::create_directories(fs::path(folder_).parent_path(), error);
  created_folder_ = mkdir(folder_.c_str(), mode) == 0;
  if (!created_folder_) {
    const int failure = errno;
    if (!fs::exists(folder_, error)) return Failed("create the output folder", folder_, failure);
    if (!fs::is_directory(folder_, error)) return Occupied(absl::StrCat("is a file; ", options_.another));
  }
  // The folder itself may be a link that the user made.
  const OpenFolder opened(folder_, 0);
  if (opened.descriptor() < 0) return Failed("read the output folder", folder_, errno);
  const std::vector<std::string> names = Names(folder_);
  if (!names.empty() && !options_.force) return Occupied(absl::StrCat("is not empty; ", options_.occupied));
  // If several processes do this at the same time, only one succeeds.
  created_log_ = mkdirat(opened.descriptor(), "log", mode) == 0;
  if (!created_log_) {
    if (errno != EEXIST) return Failed("create the output folder", log_, errno);
    if (!options_.force) return Occupied(absl::StrCat("is not empty; ", options_.occupied));
  }
  if (absl::Status status = TakeLock(); !status.ok()) return status;
  if (faccessat(opened.descriptor(), "log", W_OK | X_OK, 0) != 0) {
    return Failed("write to the output folder", log_, errno);
  }
  if (absl::Status status = Survey(names); !status.ok()) return status;
  return options_.job_run.empty() ? absl::OkStatus() : CreateJob();
}

absl::Status OutputFolder::TakeLock() {
  absl::StatusOr<std::unique_ptr<FolderLock>> lock = FolderLock::Take(log_);
  if (lock.ok()) {
    lock_ = *std::move(lock);
    return absl::OkStatus();
  }
  if (absl::IsAlreadyExists(lock.status())) {
    return Occupied(absl::StrCat(lock.status().message(), ", or ", options_.another));
  }
  if (!absl::IsFailedPrecondition(lock.status())) return absl::InternalError(lock.status().message());
  return Occupied(absl::StrCat("holds no trace: ", lock.status().message(), "; ", options_.another));
}

absl::Status OutputFolder::Share() {
  absl::StatusOr<std::unique_ptr<FolderLock>> lock =
      lock_ == nullptr ? FolderLock::Share(log_) : FolderLock::Share(std::move(lock_));
  if (absl::IsAlreadyExists(lock.status())) return Occupied(lock.status().message());
  if (!lock.ok()) return lock.status();
  lock_ = *std::move(lock);
  return absl::OkStatus();
}

bool OutputFolder::TakeAlone() {
  if (lock_ == nullptr) return true;
  lock_ = FolderLock::TakeAlone(std::move(lock_));
  return lock_ != nullptr;
}

absl::Status OutputFolder::Survey(const std::vector<std::string>& names) {
  const auto add = [this](const std::string& folder, const std::string& name, std::vector<std::string>* files) {
    const std::string path = absl::StrCat(folder, "/", name);
    struct stat is;
    if (lstat(path.c_str(), &is) != 0 || S_ISREG(is.st_mode)) {
      files->push_back(name);
      return absl::OkStatus();
    }
    return Occupied(absl::StrCat("holds no trace: ", path, S_ISLNK(is.st_mode) ? " is a link; " : " is not a file; ",
                                 options_.another));
  };
  for (const std::string& name : names) {
    if (!IsRenderedFileName(name)) continue;
    if (absl::Status status = add(folder_, name, &earlier_files_); !status.ok()) return status;
  }
  for (const std::string& name : Names(log_)) {
    if (!IsOfTrace(name)) continue;
    if (absl::Status status = add(log_, name, &earlier_logs_); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status OutputFolder::RemoveEarlierTrace() {
  if (!earlier_files_.empty()) {
    if (absl::Status status = OpenFolder(folder_, 0).Remove(earlier_files_); !status.ok()) return status;
  }
  if (earlier_logs_.empty()) return absl::OkStatus();
  return OpenFolder(log_).Remove(earlier_logs_);
}

void OutputFolder::Drop() {
  if (claimed_) {
    std::vector<std::string> logs;
    for (const std::string& name : Names(log_)) {
      const bool earlier = std::find(earlier_logs_.begin(), earlier_logs_.end(), name) != earlier_logs_.end();
      if (!earlier && IsOfTrace(name)) logs.push_back(name);
    }
    OpenFolder(log_).Remove(logs).IgnoreError();
  }
  lock_.reset();
  // rmdir removes only empty folders.
  if (created_log_) rmdir(log_.c_str());
  if (created_folder_) rmdir(folder_.c_str());
}

}  // namespace torchtrace
