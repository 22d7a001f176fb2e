#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/bytes.h"
#include "serialize/base/files.h"
#include "serialize/log/log_reader.h"

namespace torchtrace {
namespace {

constexpr size_t kChunkBytes = 256 << 10;

absl::Status CannotOpen(const std::string& path, int error) {
  return FileError(absl::StrCat("cannot read ", path), error);
}

// O_NONBLOCK: opening a pipe would wait for its writer.
int OpenToRead(const std::string& path) { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }

}  // namespace

void LogFilePool::MakeRoom() {
  while (!open_.empty() && open_.size() >= max_open_) open_.front()->Rest();
}

absl::StatusOr<std::unique_ptr<LogFile>> LogFile::Open(const std::string& path, std::shared_ptr<LogFilePool> pool) {
  if (pool != nullptr) pool->MakeRoom();
  const int fd = OpenToRead(path);
  if (fd < 0) return CannotOpen(path, errno);
  struct stat file;
  if (fstat(fd, &file) != 0) {
    const int error = errno;
    close(fd);
    return CannotOpen(path, error);
  }
  if (!S_ISREG(file.st_mode)) {
    close(fd);
    return absl::FailedPreconditionError(absl::StrCat("cannot read ", path, ": a log is a regular file"));
  }
  std::unique_ptr<LogFile> result(new LogFile(path, /*reopens=*/true, std::move(pool), file));
  result->Take(fd);
  return result;
}

absl::StatusOr<std::unique_ptr<LogFile>> LogFile::FromDescriptor(int fd, std::string name) {
  struct stat file;
  if (fstat(fd, &file) != 0) {
    const int error = errno;
    close(fd);
    return CannotOpen(name, error);
  }
  std::unique_ptr<LogFile> result(new LogFile(std::move(name), /*reopens=*/false, nullptr, file));
  result->Take(fd);
  return result;
}

LogFile::LogFile(std::string path, bool reopens, std::shared_ptr<LogFilePool> pool, const struct stat& file)
    : path_(std::move(path)),
      reopens_(reopens),
      bytes_(static_cast<uint64_t>(file.st_size)),
      device_(file.st_dev),
      inode_(file.st_ino),
      pool_(std::move(pool)) {}

LogFile::~LogFile() { Close(); }

void LogFile::Update() {
  struct stat file;
  if (const int fd = Wake(); fd >= 0 && fstat(fd, &file) == 0) bytes_ = static_cast<uint64_t>(file.st_size);
}

void LogFile::Rest() const {
  if (reopens_) Close();
}

void LogFile::Close() const {
  if (fd_ < 0) return;
  close(fd_);
  fd_ = -1;
  if (pool_ != nullptr) pool_->open_.erase(place_);
}

void LogFile::Take(int fd) const {
  fd_ = fd;
  if (pool_ != nullptr) place_ = pool_->open_.insert(pool_->open_.end(), this);
}

// It is gone if it was removed or replaced by another one.
int LogFile::Wake() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (fd_ >= 0) return fd_;
  if (pool_ != nullptr) pool_->MakeRoom();
  const int fd = OpenToRead(path_);
  if (fd < 0) return -1;
  struct stat file;
  if (fstat(fd, &file) != 0 || file.st_dev != device_ || file.st_ino != inode_) {
    close(fd);
    return -1;
  }
  Take(fd);
  return fd;
}

std::string LogFile::ReadAt(uint64_t offset, uint64_t bytes) const {
  // A damaged header may ask for more than the file holds.
  std::string text(std::min(bytes, bytes_ - std::min(bytes_, offset)), '\0');
  text.resize(ReadAt(offset, text.data(), text.size()));
  return text;
}

size_t LogFile::ReadAt(uint64_t offset, void* to, size_t bytes) const {
  const int fd = Wake();
  if (fd < 0) return 0;
  size_t done = 0;
  while (done < bytes) {
    const ssize_t count = pread(fd, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

uint64_t LogFile::HashAt(uint64_t offset, uint64_t bytes) const {
  const size_t chunk = static_cast<size_t>(std::min<uint64_t>(bytes, kChunkBytes));
  const auto buffer = std::make_unique_for_overwrite<char[]>(chunk);
  if (bytes <= chunk) return Hash64(buffer.get(), ReadAt(offset, buffer.get(), chunk));
  StreamingHash hash;
  while (bytes > 0) {
    const size_t read = ReadAt(offset, buffer.get(), static_cast<size_t>(std::min<uint64_t>(bytes, chunk)));
    if (read == 0) break;
    hash.Update(buffer.get(), read);
    offset += read;
    bytes -= read;
  }
  return hash.Digest();
}

bool LogFile::IsZeroAt(uint64_t offset, uint64_t bytes) const {
  const size_t chunk = static_cast<size_t>(std::min<uint64_t>(bytes, kChunkBytes));
  const auto buffer = std::make_unique_for_overwrite<char[]>(chunk);
  while (bytes > 0) {
    const size_t read = ReadAt(offset, buffer.get(), static_cast<size_t>(std::min<uint64_t>(bytes, chunk)));
    if (read == 0) break;
    if (std::any_of(buffer.get(), buffer.get() + read, [](char c) { return c != 0; })) return false;
    offset += read;
    bytes -= read;
  }
  return true;
}

}  // namespace torchtrace
