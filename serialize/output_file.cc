#include "serialize/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace torchtrace {
namespace {

absl::Status CannotWrite(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  // Hidden, and with the process's id: two processes that render into one folder don't mix their files.
  std::string temporary = absl::StrCat(path.substr(0, name), ".", path.substr(name), ".", getpid(), ".tmp");
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return CannotWrite(path, errno);
  return std::unique_ptr<OutputFile>(new OutputFile(path, std::move(temporary), fd));
}

OutputFile::OutputFile(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
  if (!committed_) unlink(temporary_.c_str());
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
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return CannotWrite(path_, errno);
  committed_ = true;
  return absl::OkStatus();
}

absl::Status WriteOutputFile(const std::string& path, std::string_view content) {
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  (*file)->Append(content);
  return (*file)->Commit();
}

}  // namespace torchtrace
