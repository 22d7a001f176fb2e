#include "serialize/base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "serialize/base/new_file.h"

namespace torchtrace {
namespace {

absl::Status CannotWrite(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path,
                                                               const OutputFileOptions& options) {
  std::string target = path;
  struct stat file;
  if (!options.follow) {
    if (lstat(path.c_str(), &file) == 0 && !S_ISREG(file.st_mode)) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot write ", path, ": it is ", S_ISLNK(file.st_mode) ? "a link" : "no regular file"));
    }
  } else if (stat(path.c_str(), &file) == 0) {
    if (!S_ISREG(file.st_mode) && !S_ISDIR(file.st_mode)) {
      const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
      if (fd < 0) return CannotWrite(path, errno);
      return std::unique_ptr<OutputFile>(new OutputFile(path, path, nullptr, fd));
    }
    if (lstat(path.c_str(), &file) == 0 && S_ISLNK(file.st_mode)) {
      std::error_code error;
      target = std::filesystem::canonical(path, error).string();
      if (error) return CannotWrite(path, error.value());
    }
  }
  auto temporary = std::make_unique<Unfinished>(TemporaryName(target), Unfinished::kFile);
  const int fd = CreateNewFile(temporary->path(), options.mode);
  if (fd < 0) return CannotWrite(path, errno);
  return std::unique_ptr<OutputFile>(new OutputFile(path, std::move(target), std::move(temporary), fd));
}

OutputFile::OutputFile(std::string path, std::string target, std::unique_ptr<Unfinished> temporary, int fd)
    : path_(std::move(path)), target_(std::move(target)), temporary_(std::move(temporary)), fd_(fd) {
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
}

void OutputFile::Flush() {
  std::string_view rest = buffer_;
  while (!rest.empty() && status_.ok()) {
    const ssize_t written = write(fd_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      status_ = CannotWrite(path_, errno);
    }
  }
  buffer_.clear();
}

absl::Status OutputFile::Finish() {
  if (fd_ < 0) return status_;
  Flush();
  // Some file systems tell of a full disk only here.
  if (close(fd_) != 0 && status_.ok()) status_ = CannotWrite(path_, errno);
  fd_ = -1;
  buffer_ = std::string();
  return status_;
}

absl::Status OutputFile::Commit() {
  if (absl::Status s = Finish(); !s.ok()) return s;
  if (temporary_ == nullptr) return absl::OkStatus();
  const auto lock = Unfinished::Lock();
  if (std::rename(temporary_->path().c_str(), target_.c_str()) != 0) return CannotWrite(path_, errno);
  temporary_->Complete();
  return absl::OkStatus();
}

absl::Status WriteOutputFile(const std::string& path, std::string_view content, const OutputFileOptions& options) {
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path, options);
  if (!file.ok()) return file.status();
  (*file)->Append(content);
  return (*file)->Commit();
}

}  // namespace torchtrace
