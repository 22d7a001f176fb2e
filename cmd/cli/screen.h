// A full screen that is drawn again and again, and the keys that are typed meanwhile.

#ifndef TORCHTRACE_CMD_CLI_SCREEN_H_
#define TORCHTRACE_CMD_CLI_SCREEN_H_

#include <termios.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace torchtrace {

// Takes the terminal's other screen, and gives the terminal back as it was: at the end, while the process is stopped
// (Ctrl-Z), and before a signal ends it. There is one at a time.
class Screen {
 public:
  // Whether standard output is a terminal with a screen.
  static bool Exists();

  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  struct Size {
    size_t columns = 80;
    size_t lines = 24;
  };
  Size size() const;

  // Lines that fit; without controls other than colours.
  void Draw(const std::vector<std::string>& lines);

  // What was typed, or what else there is to do. Letters are themselves, those beyond ASCII in single bytes.
  enum Key : int {
    kNothing = 256,  // the time has come
    kDrawAgain,      // the size has changed
    kGone,           // the terminal was closed
    kEscape,
    kOther,  // of no use here: an arrow, a function key
  };
  // Waits for one. `until_ns`: of CLOCK_MONOTONIC; INT64_MAX: for ever.
  int Wait(int64_t until_ns);

 private:
  void Enter();
  void Leave();
  // Ends or stops the process, if a signal wants that.
  void Obey();
  int Decode();

  bool keys_ = false;  // standard input is a terminal
  termios before_ = {};
  std::string typed_;  // not yet returned
  bool gone_ = false;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_SCREEN_H_
