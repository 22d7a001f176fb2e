#include "tracer/output_folder.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialize/render.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

std::string Rank() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* const value = getenv(name); value != nullptr && *value != '\0') return value;
  }
  return "0";
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

absl::Status Failed(const char* what, const fs::path& path, const std::error_code& error) {
  return absl::InternalError(absl::StrCat("cannot ", what, " ", path.string(), ": ", error.message()));
}

// The files in `folder` of which `ours` says so are removed.
template <typename Ours>
absl::Status RemoveFiles(const fs::path& folder, Ours ours) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (ours(entry->path().filename().string())) files.push_back(entry->path());
  }
  for (const fs::path& file : files) {
    if (!fs::remove(file, error) && error) return Failed("remove", file, error);
  }
  return absl::OkStatus();
}

bool IsLogName(const std::string& name) {
  const std::string suffix = ".ttlog";
  return name.size() > suffix.size() && name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

}  // namespace

absl::StatusOr<std::string> ExpandOutputName(const std::string& name) {
  std::string expanded;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%') {
      expanded += name[i];
      continue;
    }
    switch (i + 1 < name.size() ? name[++i] : '\0') {
      case 'p':
        absl::StrAppend(&expanded, getpid());
        break;
      case 'h':
        expanded += HostName();
        break;
      case 'r':
        expanded += Rank();
        break;
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

absl::Status PrepareOutputFolder(const std::string& folder, bool force, const OutputAdvice& advice) {
  const fs::path path = folder;
  const fs::path log = path / "log";
  std::error_code error;
  if (fs::exists(path, error)) {
    if (!fs::is_directory(path, error)) {
      return absl::AlreadyExistsError(absl::StrCat("the output folder ", folder, " is a file; ", advice.file));
    }
    const bool empty = fs::is_empty(path, error);
    if (error) return Failed("read the output folder", path, error);
    if (!empty && !force) {
      return absl::AlreadyExistsError(absl::StrCat("the output folder ", folder, " is not empty; ", advice.occupied));
    }
    if (!empty) {
      absl::Status status = RemoveFiles(path, [](const std::string& name) { return IsRenderedFileName(name); });
      if (status.ok()) status = RemoveFiles(log, IsLogName);
      if (!status.ok()) return status;
    }
  }
  fs::create_directories(log, error);
  if (error) return Failed("create the output folder", log, error);
  if (access(log.c_str(), W_OK | X_OK) != 0) {
    return Failed("write to the output folder", log, std::error_code(errno, std::generic_category()));
  }
  return absl::OkStatus();
}

void DropOutputFolder(const std::string& folder) {
  RemoveFiles(fs::path(folder) / "log", IsLogName).IgnoreError();
  // remove() takes only empty folders.
  std::error_code error;
  fs::remove(fs::path(folder) / "log", error);
  fs::remove(folder, error);
}

}  // namespace torchtrace
