#include "serialize/export/row_lists.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "serialize/base/files.h"

namespace torchtrace {

NamelessFile::~NamelessFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status NamelessFile::Make() {
  // Not every file system has O_TMPFILE; unlinking the file right away has the same effect.
  const std::string path = TemporaryName(folder_ + "/rows");
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd_ < 0) return FileError(absl::StrCat("cannot make a temporary file in ", folder_), errno);
  unlink(path.c_str());
  return absl::OkStatus();
}

absl::Status NamelessFile::Write(const void* data, size_t bytes, uint64_t offset) {
  if (fd_ < 0) {
    if (absl::Status s = Make(); !s.ok()) return s;
  }
  const char* from = static_cast<const char*>(data);
  for (size_t done = 0; done < bytes;) {
    const ssize_t written = pwrite(fd_, from + done, bytes - done, static_cast<off_t>(offset + done));
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno != EINTR) {
      return FileError(absl::StrCat("cannot write a temporary file in ", folder_), errno);
    }
  }
  size_ = std::max(size_, offset + bytes);
  return absl::OkStatus();
}

absl::Status NamelessFile::Read(void* data, size_t bytes, uint64_t offset) const {
  char* const to = static_cast<char*>(data);
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = pread(fd_, to + done, bytes - done, static_cast<off_t>(offset + done));
    if (got > 0) {
      done += static_cast<size_t>(got);
    } else if (got == 0 || errno != EINTR) {
      return FileError(absl::StrCat("cannot read a temporary file in ", folder_), got == 0 ? EIO : errno);
    }
  }
  return absl::OkStatus();
}

}  // namespace torchtrace
