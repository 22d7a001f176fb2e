#include "cmd/cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

extern char** environ;

namespace torchtrace {
namespace {

bool IsSet(const char* variable) {
  const char* const value = getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

absl::StatusOr<bool> UseColor(const std::string& when) {
  if (when == "always") return true;
  if (when == "never") return false;
  if (when != "auto") {
    return absl::InvalidArgumentError(absl::StrCat("unknown colour setting '", when, "': auto, always or never"));
  }
  if (IsSet("NO_COLOR")) return false;
  if (const char* const force = getenv("CLICOLOR_FORCE"); force != nullptr && strcmp(force, "0") != 0) return true;
  const char* const terminal = getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && (terminal == nullptr || strcmp(terminal, "dumb") != 0);
}

Pager::Pager(bool wanted) {
  if (!wanted || isatty(STDOUT_FILENO) != 1) return;
  const char* const chosen = getenv("PAGER");
  if (chosen != nullptr && (*chosen == '\0' || strcmp(chosen, "cat") == 0)) return;
  // less as most tools start it: short texts stay on the screen, colours show.
  setenv("LESS", "FRX", /*overwrite=*/0);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  // The shell says it when there is no such program, and exits with 127.
  std::string command = chosen != nullptr ? chosen : "less 2>/dev/null || cat";
  char shell[] = "sh", flag[] = "-c";
  char* const argv[] = {shell, flag, command.data(), nullptr};
  // What this process ignores, the pager doesn't.
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
