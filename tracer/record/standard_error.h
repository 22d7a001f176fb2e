// Writing to standard error and other descriptors without raising a signal, and the messages printed there.

#ifndef TORCHTRACE_TRACER_RECORD_STANDARD_ERROR_H_
#define TORCHTRACE_TRACER_RECORD_STANDARD_ERROR_H_

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <string>

namespace torchtrace {

// Like writev, but only fails, without SIGPIPE or SIGXFSZ, if the reader has gone away or the file may not grow: the
// program may let these signals end it. Async-signal-safe.
ssize_t WriteWithoutSignal(int fd, const iovec* parts, int count);

// Whether standard error is still the same file. If a program was started without one, or has put a file of its own in
// its place, our lines must not end up in that file.
class StandardErrorWatch {
 public:
  // Remembers the current one.
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

// Prints messages for the user on standard error, each line after `torchtrace: `; standard output is for requested
// output. Writes in one piece, so that messages of several processes don't mix. Writes nothing if standard error isn't
// the same as when the process started.
void SayLines(const std::string& text);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_STANDARD_ERROR_H_
