// The terminal: the progress line, colors, its size, the first screen of a text, and the pager.

#ifndef TORCHTRACE_CMD_CLI_TERMINAL_H_
#define TORCHTRACE_CMD_CLI_TERMINAL_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "serialize/base/choices.h"

namespace torchtrace {

// The progress of a long verb: one line on standard error, if that is a terminal and the work has taken a second. It
// goes when the work is done and when something else is printed, and for good when output begins that may go to a
// terminal. Not thread-safe; one line at a time.
//
//   Progress progress;
//   ... progress.Show("merging", Progress::kBytes, done, total); ...
class Progress {
 public:
  enum Unit : uint8_t { kBytes, kCalls, kConfigs };

  // `quiet`: shows nothing.
  explicit Progress(bool quiet = false);
  ~Progress() { Hide(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `total` is 0 when it isn't known. Another `what` or unit, or less done than before, restarts the estimate. Cheap:
  // most calls only look at the clock.
  void Show(const std::string& what, Unit unit, uint64_t done, uint64_t total);

  // Erases the line, so that something else can be printed; the next Show draws it again.
  static void Hide();
  // To be called before anything is written to `fd`: hides the line for good, unless that is a file.
  static void OutputBegins(int fd);

 private:
  const bool wanted_;
  const int64_t started_ns_;
  int64_t drawn_ns_ = 0;
  std::string what_;
  Unit unit_ = kBytes;
  uint64_t done_ = 0;
  int64_t pass_started_ns_;
};

// The line: `merging: 45% (1.2 of 2.7 GB), 12 s left`.
std::string FormatProgress(const std::string& what, Progress::Unit unit, uint64_t done, uint64_t total,
                           int64_t elapsed_ns);

enum class When : uint8_t { kAuto, kAlways, kNever };
const Choices<When>& Whens();

// kAuto: on a terminal, unless NO_COLOR is set; also elsewhere when CLICOLOR_FORCE is.
bool UseColor(When when);

// kAuto: where standard output is a terminal.
bool ForTerminal(When when);

// Whether standard output is a terminal, and this process's own.
bool OutputIsTerminal();

// The width in characters of the terminal that standard output is; 0 if it isn't one.
size_t TerminalWidth();

// The lines of its screen without the command and the next prompt, within the limits of what a person reads; 0 if it
// isn't one.
size_t TerminalLines();

// The beginning of a text, as much as fits on a screen. Lines are clipped (ClipText), and the last one says how many
// more there are.
class FirstScreen {
 public:
  // `lines`: 0 shows everything. `option`: the option that shows all lines, named in the last one.
  FirstScreen(size_t width, size_t lines, std::string option)
      : width_(width), lines_(lines), option_(std::move(option)) {}

  // What to show of the text that comes next.
  std::string Take(std::string_view text);
  // What to show at the end.
  std::string End();

 private:
  std::string TakeLine();

  const size_t width_;
  const size_t lines_;
  const std::string option_;
  uint64_t seen_ = 0;
  std::string line_;  // the beginning of an unfinished line
  std::string last_;  // the last line of the screen, shown if no more come
};

// $PAGER, or less, between this process and a terminal. Does nothing if standard output is no terminal, or if $PAGER is
// empty or `cat`.
class Pager {
 public:
  explicit Pager(bool wanted);
  // Closes the pipe and waits until the user has left the pager.
  ~Pager();
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;

  // Where to write.
  int fd() const { return fd_; }

 private:
  int fd_ = 1;
  pid_t pid_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_TERMINAL_H_
