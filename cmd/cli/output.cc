#include "cmd/cli/output.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <new>
#include <optional>
#include <streambuf>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cmd/cli/gzip_buffer.h"
#include "cmd/cli/terminal.h"
#include "cmd/cli/verb_host.h"
#include "serialize/base/files.h"
#include "serialize/base/packed_name.h"
#include "serialize/base/text.h"
#include "tracer/record/standard_error.h"

namespace torchtrace {
void Say(const std::string& text) {
  if (VerbHost* const host = VerbHost::Current(); host != nullptr) return host->Say(PlainLine(text));
  Progress::Hide();
  SayLines(PlainLine(text));
}

namespace {

int FailWith(int exit_code, absl::StatusCode code, const std::string& text) {
  VerbHost* const host = VerbHost::Current();
  host != nullptr ? host->Fail(code, PlainLine(text)) : Say(text);
  return exit_code;
}

}  // namespace

int Fail(int exit_code, const std::string& text) {
  return FailWith(exit_code, absl::StatusCode::kInvalidArgument, text);
}

int Fail(int exit_code, const absl::Status& status) {
  return FailWith(exit_code, status.code(), std::string(status.message()));
}

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
    Write(screen_.Take(plain));
  }
  setp(bytes_, bytes_ + sizeof bytes_);
  return error_ == 0 ? 0 : -1;
}

void StandardOutput::Buffer::Finish() {
  std::string plain;
  AppendPlainText(waiting_, {.colors = content_ == kColoredText}, &plain);
  waiting_.clear();
  Write(screen_.Take(plain) + screen_.End());
}

void StandardOutput::Buffer::Write(std::string_view bytes) {
  if (VerbHost* const host = VerbHost::Current(); host != nullptr) return host->Write(bytes);
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

StandardOutput::StandardOutput(Content content, int fd)
    : std::ostream(nullptr), buffer_(content, fd, FirstScreen(0, 0, "")) {
  Begin();
}

StandardOutput::StandardOutput(const std::string& rest_option)
    : std::ostream(nullptr),
      buffer_(kText, STDOUT_FILENO,
              FirstScreen(TerminalWidth(), rest_option.empty() ? 0 : TerminalLines(), rest_option)) {
  Begin();
}

void StandardOutput::Begin() {
  rdbuf(&buffer_);
  if (VerbHost::Current() != nullptr) return;
  // The write fails with an error instead.
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

namespace {

constexpr size_t kReserveBytes = 1 << 20;

// Memory for cleaning up.
std::atomic<char*> g_reserve{nullptr};

void OnNoMemory() {
  static thread_local bool is_ending = false;
  if (is_ending) _exit(kExitTrouble);
  is_ending = true;
  char* const reserve = g_reserve.exchange(nullptr);
  // Another thread already ends the process.
  while (reserve == nullptr) pause();
  delete[] reserve;
  RemoveUnfinished();
  _exit(Fail(kExitTrouble, "no memory is left"));
}

// Except signals that are ignored, as under nohup.
sigset_t EndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action;
    const bool ignored = sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
    if (!ignored) sigaddset(&signals, number);
  }
  return signals;
}

}  // namespace

void EndWithoutMemory() {
  g_reserve = new char[kReserveBytes];
  std::set_new_handler(OnNoMemory);
}

void MakeWritesFail() {
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

void HoldEndingSignals() {
  const sigset_t signals = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// A thread waits for the signals, cleans up, and lets the process end. A fork inherits the mask but not the thread, and
// needs a thread of its own.
void CleanUpOnSignals() {
  static pid_t watched = 0;
  if (watched == getpid()) return;
  watched = getpid();
  const sigset_t signals = EndingSignals();
  // There are no other threads yet, so only the waiting thread receives them.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int number = 0;
    if (sigwait(&signals, &number) != 0) return;
    // The process ends before the main thread can report errors that this causes.
    RemoveUnfinished();
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    kill(getpid(), number);
  }).detach();
}

namespace {

class ToStandardOutput final : public Output {
 public:
  explicit ToStandardOutput(const OutputOptions& options)
      : out_(options.binary ? StandardOutput(StandardOutput::kBinary) : StandardOutput(options.rest_option)) {}

  std::ostream& stream() override { return out_; }
  bool is_file() const override { return false; }
  absl::Status Flush() override { return absl::OkStatus(); }
  int Finish(const absl::Status& status) override { return out_.Finish(status); }

 private:
  StandardOutput out_;
};

class ToFile final : public Output {
 public:
  ToFile(std::unique_ptr<OutputFile> file, bool gzip)
      : file_(std::move(file)), buffer_(file_.get()), stream_(&buffer_) {
    if (gzip) stream_.rdbuf(&gzip_.emplace(file_.get()));
  }

  std::ostream& stream() override { return stream_; }
  bool is_file() const override { return true; }
  absl::Status Flush() override {
    if (gzip_.has_value() && !flushed_) gzip_->Finish();
    flushed_ = true;
    return file_->Finish();
  }

  int Finish(const absl::Status& status) override {
    // A failed write causes the other errors.
    if (!file_->status().ok()) return Fail(kExitTrouble, file_->status());
    if (!status.ok()) return Fail(kExitTrouble, status);
    absl::Status committed = Flush();
    if (committed.ok()) committed = file_->Commit();
    return committed.ok() ? kExitOk : Fail(kExitTrouble, committed);
  }

 private:
  const std::unique_ptr<OutputFile> file_;
  OutputFileBuffer buffer_;
  std::optional<GzipBuffer> gzip_;
  std::ostream stream_;
  bool flushed_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Output>> Output::Open(const std::string& path, const OutputOptions& options) {
  if (path.empty() || path == "-") {
    if (options.binary && OutputIsTerminal()) {
      return absl::InvalidArgumentError(
          "this format is binary, and standard output is a terminal; -o FILE writes a file");
    }
    return std::make_unique<ToStandardOutput>(options);
  }
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat(path, " is a folder; give a file"));
  }
  if (!options.force && std::filesystem::is_regular_file(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists; --force replaces it"));
  }
  // Even with --force: the file is a log, the trace itself.
  if (path.ends_with(".ttlog") && std::filesystem::exists(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat(path, " is a log of a trace; give another file"));
  }
  CleanUpOnSignals();
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path, {.replace = options.force});
  if (!file.ok()) return file.status();
  return std::make_unique<ToFile>(*std::move(file), IsGzipName(path));
}

}  // namespace torchtrace
