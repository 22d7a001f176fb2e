// Standard error and other descriptors, written to without a signal; and the lines that are said there.

#ifndef TORCHTRACE_TRACER_RECORD_STANDARD_ERROR_H_
#define TORCHTRACE_TRACER_RECORD_STANDARD_ERROR_H_

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <string>

namespace torchtrace {

// A write that is an error, and nothing more, where the reader has gone away or the file may not
// grow: SIGPIPE and SIGXFSZ are the program's, which may have them end it.

// As writev. Async-signal-safe.
ssize_t WriteWithoutSignal(int fd, const iovec* parts, int count);

// Whether standard error is still what it was: a program that was started
// without one, or that has put a file of its own in its place, must not find our
// lines in that file.

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

// What torchtrace says to its user: on standard error, line by line after
// `torchtrace: `. Standard output is for what was asked for.

// Writes in one piece, so that what several processes say doesn't mix. Nothing
// is written when standard error isn't what it was when the process started.
void SayLines(const std::string& text);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_STANDARD_ERROR_H_
