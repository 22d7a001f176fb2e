#include "cmd/cli/screen.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "serialize/base/monotonic_clock.h"

namespace torchtrace {
namespace {

// The other screen, no cursor, no wrapping of lines that a wide character makes too long.
constexpr char kEnterScreen[] = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr char kLeaveScreen[] = "\x1b[?7h\x1b[?25h\x1b[?1049l";
// What follows an Escape within this time belongs to its key.
constexpr int kSequenceMs = 25;

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};

// The signals come only while the screen waits.
volatile sig_atomic_t g_signal = 0;  // that ends or stops the process
volatile sig_atomic_t g_resized = 0;
volatile sig_atomic_t g_resumed = 0;

void OnScreenSignal(int number) {
  if (number == SIGWINCH) {
    g_resized = 1;
  } else if (number == SIGCONT) {
    g_resumed = 1;
  } else {
    g_signal = number;
  }
}

sigset_t ScreenSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : kSignals) sigaddset(&signals, number);
  return signals;
}

void SetHandler(int number, void (*handler)(int)) {
  struct sigaction action = {};
  struct sigaction before;
  // Those that are ignored, as under nohup, stay so.
  if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return;
  action.sa_handler = handler;
  sigaction(number, &action, nullptr);
}

// False: the terminal is gone.
bool WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

bool Screen::Exists() {
  const char* const terminal = getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && terminal != nullptr && *terminal != '\0' && strcmp(terminal, "dumb") != 0;
}

Screen::Screen() {
  const sigset_t signals = ScreenSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  for (const int number : kSignals) SetHandler(number, OnScreenSignal);
  keys_ = isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &before_) == 0;
  Enter();
}

Screen::~Screen() {
  Leave();
  for (const int number : kSignals) SetHandler(number, SIG_DFL);
  const sigset_t signals = ScreenSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

void Screen::Enter() {
  if (keys_) {
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  gone_ = !WriteAll(kEnterScreen);
}

void Screen::Leave() {
  WriteAll(kLeaveScreen);
  if (keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

Screen::Size Screen::size() const {
  winsize size;
  Size result;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return result;
  if (size.ws_col > 0) result.columns = size.ws_col;
  if (size.ws_row > 0) result.lines = size.ws_row;
  return result;
}

void Screen::Draw(const std::vector<std::string>& lines) {
  std::string text = "\x1b[H";
  for (size_t i = 0; i < lines.size(); ++i) absl::StrAppend(&text, i == 0 ? "" : "\r\n", lines[i], "\x1b[K");
  text += "\x1b[J";
  if (!WriteAll(text)) gone_ = true;
}

void Screen::Obey() {
  const int number = g_signal;
  if (number == 0) return;
  g_signal = 0;
  Leave();
  // The signal's own action: it ends the process, or stops it for a while.
  SetHandler(number, SIG_DFL);
  raise(number);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  pthread_sigmask(SIG_BLOCK, &one, nullptr);
  SetHandler(number, OnScreenSignal);
  g_resumed = 1;
}

int Screen::Wait(int64_t until_ns) {
  for (;;) {
    Obey();
    // Whoever was in front meanwhile has used the terminal.
    if (g_resumed != 0) Enter();
    if (gone_) return kGone;
    const bool changed = g_resized != 0 || g_resumed != 0;
    g_resized = 0;
    g_resumed = 0;
    if (changed) return kDrawAgain;
    if (!typed_.empty()) return Decode();
    const int64_t left_ns = until_ns == INT64_MAX ? INT64_MAX : std::max<int64_t>(0, until_ns - MonotonicNowNs());
    const timespec left = {static_cast<time_t>(left_ns / 1'000'000'000), static_cast<long>(left_ns % 1'000'000'000)};
    pollfd input = {.fd = keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
    sigset_t none;
    pthread_sigmask(SIG_SETMASK, nullptr, &none);
    for (const int number : kSignals) sigdelset(&none, number);
    const int ready = ppoll(&input, 1, left_ns == INT64_MAX ? nullptr : &left, &none);
    if (ready == 0) return kNothing;
    if (ready < 0) continue;
    char bytes[64];
    const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
    if (count > 0) typed_.append(bytes, static_cast<size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) gone_ = true;
  }
}

// The first key of what was typed.
int Screen::Decode() {
  constexpr char kEscapeByte = '\x1b';
  const auto take = [this](size_t bytes) { typed_.erase(0, bytes); };
  const int first = static_cast<unsigned char>(typed_[0]);
  if (typed_[0] != kEscapeByte) {
    take(1);
    return first;
  }
  pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (typed_.size() < 16 && poll(&input, 1, typed_.size() == 1 ? kSequenceMs : 0) == 1) {
    char byte;
    if (read(STDIN_FILENO, &byte, 1) != 1) break;
    typed_ += byte;
  }
  if (typed_.size() == 1 || (typed_[1] != '[' && typed_[1] != 'O')) {
    take(1);
    return kEscape;
  }
  // `ESC [ 1 ; 5 A`: up to a letter or a tilde.
  size_t end = 2;
  while (end < typed_.size() && (typed_[end] < '@' || typed_[end] > '~')) ++end;
  take(std::min(end + 1, typed_.size()));
  return kOther;
}

}  // namespace torchtrace
