// The terminal: how far something has come, and how wide it is.

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

// How far a long verb has come: one line on standard error, when that is a
// terminal and the work has taken a second, and gone when the work is done, when
// something else is said, and for good when output comes that a person may be looking at.
// Not thread-safe; one line at a time.
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

  // `total` is 0 when it isn't known. Another `what` or unit, or less done than before, begins anew.
  // Looks at the clock, and no more most of the time.
  void Show(const std::string& what, Unit unit, uint64_t done, uint64_t total);

  // Takes away the line that stands on the terminal, for something else to be said. It comes
  // back by itself.
  static void Hide();
  // Before anything is written to `fd`: hides the line for good, unless that is a file.
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

// Whether there is a person at the other end: colours and the pager.

enum class When : uint8_t { kAuto, kAlways, kNever };
const Choices<When>& Whens();

// kAuto: on a terminal, unless NO_COLOR is set; also elsewhere when CLICOLOR_FORCE is.
bool UseColor(When when);

// kAuto: where standard output is a terminal.
bool ForTerminal(When when);

// Characters on a line of the terminal that standard output is; 0 where it is none.
size_t TerminalWidth();

// Lines of its screen beside the command and the next prompt, no more than a person looks at; 0 where it is none.
size_t TerminalLines();

// The beginning of a text, as much as fits on a screen: lines are clipped (ClipText), and the last one says how many
// more there are.
class FirstScreen {
 public:
  // All of it where there are no `lines`. `option`: by which all of it is shown.
  FirstScreen(size_t width, size_t lines, std::string option)
      : width_(width), lines_(lines), option_(std::move(option)) {}

  // What is to be shown of what comes next.
  std::string Take(std::string_view text);
  // The same of the end.
  std::string End();

 private:
  std::string TakeLine();

  const size_t width_;
  const size_t lines_;
  const std::string option_;
  uint64_t seen_ = 0;
  std::string line_;  // the beginning of one
  std::string last_;  // that fits, if no more come
};

// $PAGER, or less, between us and a terminal. Nothing where standard output is
// no terminal, or $PAGER is empty or `cat`.
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
