#include "tracer/record/write_without_signal.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

namespace torchtrace {

ssize_t WriteWithoutSignal(int fd, const iovec* parts, int count) {
  sigset_t signals, before, pending;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  sigaddset(&signals, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  sigpending(&pending);
  const ssize_t written = writev(fd, parts, count);
  const int error = errno;
  const int number = error == EPIPE ? SIGPIPE : SIGXFSZ;
  // One that the program has waiting stays.
  if (written < 0 && (error == EPIPE || error == EFBIG) && sigismember(&pending, number) == 0) {
    sigemptyset(&signals);
    sigaddset(&signals, number);
    const timespec now = {};
    while (sigtimedwait(&signals, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return written;
}

}  // namespace torchtrace
