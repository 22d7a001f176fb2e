// The list of what the run's processes could not follow, and of processes that could not be attached to: a file beside
// the run's task, whose lines log_folder.h describes. Needs nothing but the C library.

#ifndef TORCHTRACE_TRACER_FOLLOW_NOT_FOLLOWED_H_
#define TORCHTRACE_TRACER_FOLLOW_NOT_FOLLOWED_H_

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serialize/base/log_folder.h"

namespace torchtrace {

// The list grows no further.
inline constexpr off_t kMaxNotFollowedBytes = 64 << 10;

// A line of the list, cut to 1,000 bytes.
class NotFollowed {
 public:
  NotFollowed(const char* command, const char* why) {
    const int wanted = snprintf(line_, sizeof line_ - 1, "%s\t%s", why, command);
    bytes_ = wanted <= 0 ? 0 : strnlen(line_, sizeof line_ - 2);
    for (size_t i = 0; i < bytes_; ++i) {
      if (line_[i] == '\n') line_[i] = ' ';
    }
    line_[bytes_++] = '\n';
  }

  const char* line() const { return line_; }
  size_t bytes() const { return bytes_; }

 private:
  char line_[1000];
  size_t bytes_;
};

// Appends lines to the list beside the task. False: this process may not. Nothing is appended when another run has the
// folder. Keeps errno.
inline bool AppendNotFollowed(const char* task, const char* text, size_t bytes) {
  const int error = errno;
  struct stat info;
  if (lstat(task, &info) != 0) {
    const bool gone = errno == ENOENT;
    errno = error;
    return gone;
  }
  char path[PATH_MAX + sizeof kNotFollowedName];
  const size_t folder = static_cast<size_t>(strrchr(task, '/') - task) + 1;
  memcpy(path, task, folder);
  path[folder] = '\0';
  // As readable as the folder.
  const mode_t mode = 0600 | (stat(path, &info) == 0 ? info.st_mode & 0044 : 0);
  strcpy(path + folder, kNotFollowedName);
  const int list = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode);
  const bool done = list >= 0 && fstat(list, &info) == 0 && S_ISREG(info.st_mode) &&
                    info.st_size < kMaxNotFollowedBytes && write(list, text, bytes) >= 0;
  if (list >= 0) close(list);
  errno = error;
  return done;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_FOLLOW_NOT_FOLLOWED_H_
