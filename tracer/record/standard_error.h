// Whether standard error is still what it was: a program that was started
// without one, or that has put a file of its own in its place, must not find our
// lines in that file.

#ifndef TORCHTRACE_TRACER_RECORD_STANDARD_ERROR_H_
#define TORCHTRACE_TRACER_RECORD_STANDARD_ERROR_H_

#include <sys/stat.h>
#include <unistd.h>

namespace torchtrace {

class StandardErrorWatch {
 public:
  // Takes what it is now for what it should be.
  StandardErrorWatch() : open_(fstat(STDERR_FILENO, &first_) == 0) {}

  // Async-signal-safe.
  bool IsTheSame() const {
    struct stat now;
    return open_ && fstat(STDERR_FILENO, &now) == 0 && now.st_dev == first_.st_dev && now.st_ino == first_.st_ino;
  }

 private:
  struct stat first_ = {};
  const bool open_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_STANDARD_ERROR_H_
