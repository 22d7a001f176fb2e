#include "cmd/standard_output.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "cmd/exit_code.h"
#include "cmd/message.h"
#include "cmd/progress.h"

namespace torchtrace {

int StandardOutput::Buffer::overflow(int c) {
  if (sync() != 0) return traits_type::eof();
  if (c != traits_type::eof()) {
    *pptr() = static_cast<char>(c);
    pbump(1);
  }
  return 0;
}

int StandardOutput::Buffer::sync() {
  Progress::OutputBegins(fd_);
  const char* at = pbase();
  while (at < pptr() && error_ == 0) {
    const ssize_t written = ::write(fd_, at, static_cast<size_t>(pptr() - at));
    if (written >= 0) {
      at += written;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  setp(bytes_, bytes_ + sizeof bytes_);
  return error_ == 0 ? 0 : -1;
}

StandardOutput::StandardOutput(int fd) : std::ostream(nullptr), buffer_(fd) {
  rdbuf(&buffer_);
  // The write's error says it instead.
  signal(SIGPIPE, SIG_IGN);
}

int StandardOutput::Finish(const absl::Status& status) {
  flush();
  if (buffer_.error() == EPIPE) return kExitOk;
  if (buffer_.error() != 0) {
    return Fail(kExitTrouble, absl::StrCat("cannot write to standard output: ", strerror(buffer_.error())));
  }
  return status.ok() ? kExitOk : Fail(kExitTrouble, status);
}

int WriteStandardOutput(const std::string& text, int failure_exit_code) {
  StandardOutput out;
  out << text;
  return out.Finish(absl::OkStatus()) == kExitOk ? kExitOk : failure_exit_code;
}

}  // namespace torchtrace
