#include "tracer/record/standard_error.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "serialize/base/text.h"

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
  // A signal of the program that was pending before stays pending.
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

namespace {

const StandardErrorWatch g_standard_error;

}  // namespace

void SayLines(const std::string& text) {
  if (!g_standard_error.IsTheSame()) return;
  std::string plain;
  AppendPlainText(text, {}, &plain);
  std::string lines = absl::StrCat("torchtrace: ", absl::StrReplaceAll(plain, {{"\n", "\ntorchtrace: "}}), "\n");
  for (size_t at = 0; at < lines.size();) {
    const iovec rest = {lines.data() + at, lines.size() - at};
    const ssize_t written = WriteWithoutSignal(STDERR_FILENO, &rest, 1);
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

}  // namespace torchtrace
