#include "cmd/cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cmd/cli/verb_host.h"
#include "serialize/base/clip_text.h"
#include "serialize/base/monotonic_clock.h"

extern char** environ;
namespace torchtrace {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kDelayNs = kSecondNs;
constexpr int64_t kRedrawNs = kSecondNs / 5;

// Global, since there is one terminal.
bool g_visible = false;
bool g_over = false;

bool IsTerminal() {
  const char* const terminal = getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (terminal == nullptr || strcmp(terminal, "dumb") != 0);
}

void Write(const std::string& text) {
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) {
    // Nothing can be reported.
  }
}

struct Scale {
  double divisor;
  const char* name;
};

Scale ScaleOf(Progress::Unit unit, uint64_t count) {
  switch (unit) {
    case Progress::kBytes:
      return count < 10'000'000 ? Scale{1e3, " kB"} : count < 10'000'000'000 ? Scale{1e6, " MB"} : Scale{1e9, " GB"};
    case Progress::kConfigs:
      return {1, " configs"};
    case Progress::kCalls:
      break;
  }
  return count < 1'000'000 ? Scale{1, " calls"} : Scale{1e6, " million calls"};
}

std::string Amount(const Scale& scale, uint64_t count) {
  const double scaled = static_cast<double>(count) / scale.divisor;
  return scale.divisor == 1 ? absl::StrCat(count) : absl::StrFormat("%.1f", scaled);
}

}  // namespace

std::string FormatProgress(const std::string& what, Progress::Unit unit, uint64_t done, uint64_t total,
                           int64_t elapsed_ns) {
  const Scale scale = ScaleOf(unit, std::max(done, total));
  if (total == 0) return absl::StrCat(what, ": ", Amount(scale, done), scale.name);
  done = std::min(done, total);
  const double share = static_cast<double>(done) / static_cast<double>(total);
  std::string line = absl::StrCat(what, ": ", static_cast<int>(100 * share), "% (", Amount(scale, done), " of ",
                                  Amount(scale, total), scale.name, ")");
  if (share < 0.01) return line;  // too early to tell
  const auto left = static_cast<int64_t>(static_cast<double>(elapsed_ns) * (1 - share) / share) / kSecondNs;
  if (left >= 120) {
    absl::StrAppend(&line, ", ", left / 60, " min left");
  } else {
    absl::StrAppend(&line, ", ", left, " s left");
  }
  return line;
}

Progress::Progress(bool quiet)
    : wanted_(!quiet && VerbHost::Current() == nullptr && IsTerminal()),
      started_ns_(MonotonicNowNs()),
      pass_started_ns_(started_ns_) {}

void Progress::Hide() {
  if (g_visible) Write("\r\x1b[K");
  g_visible = false;
}

void Progress::OutputBegins(int fd) {
  if (g_over) return;
  struct stat file;
  if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode)) return;
  Hide();
  g_over = true;
}

void Progress::Show(const std::string& what, Unit unit, uint64_t done, uint64_t total) {
  if (!wanted_ || g_over) return;
  const int64_t now_ns = MonotonicNowNs();
  if (what != what_ || unit != unit_ || done < done_) {
    what_ = what;
    unit_ = unit;
    pass_started_ns_ = now_ns;
  }
  done_ = done;
  if (now_ns - started_ns_ < kDelayNs || now_ns - drawn_ns_ < kRedrawNs) return;
  drawn_ns_ = now_ns;
  g_visible = true;
  Write(absl::StrCat("\r\x1b[K", FormatProgress(what, unit, done, total, now_ns - pass_started_ns_)));
}

namespace {

bool IsSet(const char* variable) {
  const char* const value = getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

const Choices<When>& Whens() {
  static const Choices<When> whens("unknown value",
                                   {{"auto", When::kAuto}, {"always", When::kAlways}, {"never", When::kNever}});
  return whens;
}

bool OutputIsTerminal() { return VerbHost::Current() == nullptr && isatty(STDOUT_FILENO) == 1; }

bool UseColor(When when) {
  if (when != When::kAuto) return when == When::kAlways;
  if (IsSet("NO_COLOR")) return false;
  if (const char* const force = getenv("CLICOLOR_FORCE"); force != nullptr && strcmp(force, "0") != 0) return true;
  const char* const terminal = getenv("TERM");
  return OutputIsTerminal() && (terminal == nullptr || strcmp(terminal, "dumb") != 0);
}

bool ForTerminal(When when) { return when == When::kAuto ? OutputIsTerminal() : when == When::kAlways; }

size_t TerminalWidth() {
  winsize size;
  return OutputIsTerminal() && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

size_t TerminalLines() {
  constexpr size_t kMost = 45, kLeast = 10, kBeside = 2;
  winsize size;
  if (!OutputIsTerminal() || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  // Height unknown: assume a large one.
  return size.ws_row == 0 ? kMost : std::clamp<size_t>(size.ws_row, kLeast + kBeside, kMost + kBeside) - kBeside;
}

std::string FirstScreen::TakeLine() {
  std::string line = std::exchange(line_, {});
  if (++seen_ > lines_) {
    last_.clear();
    return {};
  }
  line = absl::StrCat(ClipText(line, width_, 0), "\n");
  if (seen_ < lines_) return line;
  last_ = std::move(line);
  return {};
}

std::string FirstScreen::Take(std::string_view text) {
  if (lines_ == 0) return std::string(text);
  std::string shown;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    line_ += text.substr(0, end);
    shown += TakeLine();
    text.remove_prefix(end + 1);
  }
  line_ += text;
  return shown;
}

std::string FirstScreen::End() {
  std::string shown = line_.empty() ? "" : TakeLine();
  if (seen_ <= lines_) return shown + last_;
  return absl::StrCat(shown, "... and ", seen_ - lines_ + 1, " more lines (", option_, " shows them)\n");
}

Pager::Pager(bool wanted) {
  if (!wanted || !OutputIsTerminal()) return;
  const char* const chosen = getenv("PAGER");
  if (chosen != nullptr && (*chosen == '\0' || strcmp(chosen, "cat") == 0)) return;
  // The defaults of most tools: short texts stay on the screen, colors show.
  setenv("LESS", "FRX", /*overwrite=*/0);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  // If there is no such program, the shell prints an error and exits with 127.
  std::string command = chosen != nullptr ? chosen : "less 2>/dev/null || cat";
  char shell[] = "sh", flag[] = "-c";
  char* const argv[] = {shell, flag, command.data(), nullptr};
  // The pager must not inherit the signals that this process ignores.
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  sigaddset(&defaults, SIGXFSZ);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawnp(&pid_, shell, &actions, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[0]);
  if (error != 0) {
    close(ends[1]);
    pid_ = 0;
    return;
  }
  fd_ = ends[1];
  // Ctrl-C is for the pager while it runs.
  signal(SIGINT, SIG_IGN);
}

Pager::~Pager() {
  if (pid_ == 0) return;
  close(fd_);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  signal(SIGINT, SIG_DFL);
}

}  // namespace torchtrace
