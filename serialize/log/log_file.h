// LogFile is a log's bytes: an open file that is read by position. It is not
// mapped: a mapped file that shrinks while it is read (a writer gives space
// back, a user truncates it) kills its reader, and here it is a short read.
// It owns a descriptor while it is used: a run may have left more logs than a
// process may have files open. Files that share a pool take turns. Not thread-safe.

#ifndef TORCHTRACE_SERIALIZE_LOG_LOG_FILE_H_
#define TORCHTRACE_SERIALIZE_LOG_LOG_FILE_H_

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace torchtrace {

class LogFile;

// Of its files only so many have a descriptor at a time.
class LogFilePool {
 public:
  explicit LogFilePool(size_t max_open = 32) : max_open_(max_open) {}

 private:
  friend class LogFile;
  // For one more.
  void MakeRoom();

  const size_t max_open_;
  std::list<const LogFile*> open_;  // the one that was opened first is in front
};

class LogFile {
 public:
  // NotFound, PermissionDenied or FailedPrecondition (a folder, a device), with
  // the path.
  static absl::StatusOr<std::unique_ptr<LogFile>> Open(const std::string& path,
                                                       std::shared_ptr<LogFilePool> pool = nullptr);
  // A file that can't be opened again, such as an unlinked one: it keeps `fd`, which it owns, to the
  // end. `name` stands for its path.
  static absl::StatusOr<std::unique_ptr<LogFile>> FromDescriptor(int fd, std::string name);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  const std::string& path() const { return path_; }
  // When it was first opened; a running program's log grows.
  uint64_t bytes() const { return bytes_; }

  // Closes the descriptor until the next read, if there is a path to open it by.
  void Rest() const;

  // Returns the number of bytes read, which is less than asked for where the
  // file ends or the disk fails.
  size_t ReadAt(uint64_t offset, void* to, size_t bytes) const;

  // XXH3_64 of a range, or of as much of it as can be read.
  uint64_t HashAt(uint64_t offset, uint64_t bytes) const;

  // True when no byte of the range is other than zero.
  bool IsZeroAt(uint64_t offset, uint64_t bytes) const;

 private:
  LogFile(std::string path, bool reopens, std::shared_ptr<LogFilePool> pool, const struct stat& file);
  void Take(int fd) const;
  void Close() const;
  bool Wake() const;

  const std::string path_;
  const bool reopens_;  // path_ opens it
  const uint64_t bytes_;
  const uint64_t device_;
  const uint64_t inode_;
  const std::shared_ptr<LogFilePool> pool_;            // null: no bound
  mutable int fd_ = -1;                                // while it rests
  mutable std::list<const LogFile*>::iterator place_;  // in the pool, while it doesn't
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_LOG_FILE_H_
