#include "serialize/base/folder_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace torchtrace {
namespace {

constexpr size_t kBytes = 4096;
constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int kOpenFile = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

absl::Status Failed(const std::string& log, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot lock ", log, "/", FolderLock::kName));
}

// The file says `123 host`; it may be anybody's.
std::string Holder(int file) {
  char text[300] = "";
  const ssize_t bytes = pread(file, text, sizeof text - 1, 0);
  const std::string_view all(text, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  const size_t space = all.find(' ');
  const std::string_view number = all.substr(0, space);
  int pid = 0;
  if (!absl::SimpleAtoi(absl::string_view(number.data(), number.size()), &pid)) return "another process";
  char own[256] = "";
  gethostname(own, sizeof own - 1);
  const std::string_view host = space == std::string_view::npos ? "" : all.substr(space + 1);
  bool plain = host != own && !host.empty();
  for (const char c : host) plain = plain && c > ' ' && c < 127;
  return absl::StrCat("process ", pid, plain ? absl::StrCat(" on ", std::string(host)) : "");
}

void WriteHolder(int file) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::string text = absl::StrCat(getpid(), " ", host);
  // On a full disk nobody is named.
  if (ftruncate(file, 0) != 0 || pwrite(file, text.data(), text.size(), 0) < 0) return;
}

// False when another file has the name by now: who held the lock before took it away.
bool HasItsName(int folder, int file) {
  struct stat opened, named;
  return fstat(file, &opened) == 0 && fstatat(folder, FolderLock::kName, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& log) {
  const int folder = open(log.c_str(), kOpenFolder);
  // What it is, then, has to be asked.
  if (struct stat is; folder < 0 && lstat(log.c_str(), &is) == 0 && !S_ISDIR(is.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(log, S_ISLNK(is.st_mode) ? " is a link" : " is no folder"));
  }
  if (folder < 0) return Failed(log, errno);
  const absl::Cleanup close_folder = [folder] { close(folder); };
  while (true) {
    const int file = openat(folder, kName, kOpenFile | O_CREAT, 0600);
    if (file < 0) return Failed(log, errno);
    const absl::Cleanup close_file = [file] { close(file); };
    struct stat info;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) return Failed(log, EINVAL);
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) {
        return absl::AlreadyExistsError(absl::StrCat(
            "is in use: ", Holder(file), ", or one that it forked, still writes its trace there; wait for its end"));
      }
      return std::unique_ptr<FolderLock>(new FolderLock(log, nullptr));
    }
    if (!HasItsName(folder, file)) continue;
    WriteHolder(file);
    void* const mapping = mmap(nullptr, kBytes, PROT_NONE, MAP_SHARED, file, 0);
    return std::unique_ptr<FolderLock>(new FolderLock(log, mapping == MAP_FAILED ? nullptr : mapping));
  }
}

FolderLock::~FolderLock() {
  if (mapping_ == nullptr) return;
  munmap(mapping_, kBytes);
  const int folder = open(log_.c_str(), kOpenFolder);
  if (folder < 0) return;
  const int file = openat(folder, kName, kOpenFile);
  // Nobody gets the lock of a file that has lost its name: see HasItsName.
  if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0 && HasItsName(folder, file)) unlinkat(folder, kName, 0);
  if (file >= 0) close(file);
  close(folder);
}

}  // namespace torchtrace
