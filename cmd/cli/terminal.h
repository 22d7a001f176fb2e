// Whether there is a person at the other end: colours and the pager.

#ifndef TORCHTRACE_CMD_CLI_TERMINAL_H_
#define TORCHTRACE_CMD_CLI_TERMINAL_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace torchtrace {

// `always`, `never`, or `auto`: on a terminal, unless NO_COLOR is set; also
// elsewhere when CLICOLOR_FORCE is.
absl::StatusOr<bool> UseColor(const std::string& when);

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
