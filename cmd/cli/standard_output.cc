#include "cmd/cli/standard_output.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "cmd/cli/exit_code.h"
#include "cmd/cli/message.h"
#include "cmd/cli/progress.h"
#include "serialize/base/plain_text.h"

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
  const std::string_view bytes(pbase(), static_cast<size_t>(pptr() - pbase()));
  if (content_ == kBinary) {
    Write(bytes);
  } else {
    waiting_ += bytes;
    std::string plain;
    const size_t taken = AppendPlainText(waiting_, {.colors = content_ == kColoredText, .more = true}, &plain);
    waiting_.erase(0, taken);
    Write(plain);
  }
  setp(bytes_, bytes_ + sizeof bytes_);
  return error_ == 0 ? 0 : -1;
}

void StandardOutput::Buffer::Finish() {
  std::string plain;
  AppendPlainText(waiting_, {.colors = content_ == kColoredText}, &plain);
  waiting_.clear();
  Write(plain);
}

void StandardOutput::Buffer::Write(std::string_view bytes) {
  if (!bytes.empty()) Progress::OutputBegins(fd_);
  while (!bytes.empty() && error_ == 0) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
}

StandardOutput::StandardOutput(Content content, int fd) : std::ostream(nullptr), buffer_(content, fd) {
  rdbuf(&buffer_);
  // The write's error says it instead.
  signal(SIGPIPE, SIG_IGN);
}

int StandardOutput::Finish(const absl::Status& status) {
  flush();
  buffer_.Finish();
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
