#include "tracer/launch/run_command.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

extern char** environ;

namespace torchtrace {
namespace {

// Never a standard descriptor, even where those are closed.
int MakeMemoryFile(const char* name) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0 || file > STDERR_FILENO) return file;
  const int moved = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(file);
  return moved;
}

std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  off_t at = 0;
  for (ssize_t bytes; (bytes = pread(fd, buffer, sizeof buffer, at)) > 0; at += bytes) {
    text.append(buffer, static_cast<size_t>(bytes));
  }
  return text;
}

}  // namespace

absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& command) {
  const auto failed = [&](int error) {
    return absl::InternalError(absl::StrCat("cannot run ", command[0], ": ", strerror(error)));
  };
  // Files in memory instead of pipes: nothing to read while it runs.
  const int out = MakeMemoryFile("stdout");
  const int err = MakeMemoryFile("stderr");
  absl::Cleanup close_files = [&] {
    if (out >= 0) close(out);
    if (err >= 0) close(err);
  };
  if (out < 0 || err < 0) return failed(errno);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return failed(error);

  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return failed(errno);
  }
  CommandResult result;
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  result.standard_output = ReadAll(out);
  result.standard_error = ReadAll(err);
  return result;
}

}  // namespace torchtrace
