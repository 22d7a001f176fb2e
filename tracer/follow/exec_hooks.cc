// The functions by which a program starts others, in place of the C library's.

#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "tracer/follow/follow.h"
#include "tracer/follow/following.h"
#include "tracer/record/export.h"

extern char** environ;

namespace {

using torchtrace::FollowedEnvironment;
using torchtrace::Follows;
using torchtrace::FollowsFound;

// The next definition of a function, looked up before the program runs: a forked child may not call dlsym.
template <typename Function>
class Next {
 public:
  explicit Next(const char* name) : function_(reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name))) {}
  template <typename... Arguments>
  auto operator()(Arguments... arguments) const {
    return function_(arguments...);
  }

 private:
  Function* const function_;
};

using Exec = int(const char*, char* const*, char* const*);
using Spawn = int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const*,
                  char* const*);

struct NextFunctions {
  Next<Exec> execve{"execve"};
  Next<Exec> execvpe{"execvpe"};
  Next<int(int, const char*, char* const*, char* const*, int)> execveat{"execveat"};
  Next<int(int, char* const*, char* const*)> fexecve{"fexecve"};
  Next<Spawn> posix_spawn{"posix_spawn"};
  Next<Spawn> posix_spawnp{"posix_spawnp"};
  Next<int(const char*)> system{"system"};
  Next<FILE*(const char*, const char*)> popen{"popen"};
  Next<void(int)> exit{"_exit"};
};

// Before the program runs, and before the other libraries' constructors: those may start programs.
NextFunctions* g_nexts = nullptr;
[[gnu::constructor(101)]] void FindNexts() {
  alignas(NextFunctions) static char memory[sizeof(NextFunctions)];
  if (g_nexts == nullptr) g_nexts = new (memory) NextFunctions;
}
const NextFunctions& Nexts() {
  if (g_nexts == nullptr) FindNexts();
  return *g_nexts;
}

std::atomic<void (*)(int)> g_exits{nullptr};

// Calls `start(environment)` with the two variables, and without them if they are too much. The stack holds what is
// usual: in a vforked child a mapping would stay its parent's.
template <typename Start>
[[gnu::noinline]] int WithVariables(char* const* environment, Start start) {
  constexpr size_t kMostOnStack = 64 << 10;
  const FollowedEnvironment followed(environment);
  const size_t bytes = followed.bytes();
  void* const memory = bytes <= kMostOnStack
                           ? alloca(bytes)
                           : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return start(environment);
  int result = start(followed.Make(memory));
  // exec sets errno, posix_spawn returns the error.
  if (result == E2BIG || (result == -1 && errno == E2BIG)) result = start(environment);
  const int error = errno;
  if (bytes > kMostOnStack) munmap(memory, bytes);
  errno = error;
  return result;
}

// The arguments of execl and its like, from the second on.
template <typename Start>
int WithArguments(const char* first, va_list* list, Start start) {
  va_list counted;
  va_copy(counted, *list);
  size_t count = 1;
  while (va_arg(counted, char*) != nullptr) ++count;
  va_end(counted);
  auto** const argv = static_cast<char**>(alloca((count + 1) * sizeof(char*)));
  argv[0] = const_cast<char*>(first);
  for (size_t i = 1; i <= count; ++i) argv[i] = va_arg(*list, char*);
  return start(argv);
}

// Text in quotes, for a shell.
char* Quote(const char* text, char* to) {
  *to++ = '\'';
  for (; *text != '\0'; ++text) {
    if (*text == '\'') to = stpcpy(to, "'\\'");
    *to++ = *text;
  }
  return stpcpy(to, "'");
}

// The C library's system and popen start the shell by functions of their own. So a first shell sets the variables and
// becomes the one that they would start. Allocated; null: no memory, or the text would be too long for an argument.
char* ShellCommand(const char* command) {
  constexpr size_t kMaxArgument = 128 << 10;
  const FollowedEnvironment followed(environ);
  void* const memory = malloc(followed.bytes());
  char* text = nullptr;
  if (memory != nullptr) {
    char* const* entry = followed.Make(memory);
    while (entry[2] != nullptr) ++entry;  // to the last two
    text = static_cast<char*>(malloc(4 * (strlen(entry[0]) + strlen(entry[1]) + strlen(command)) + 100));
    char* to = text;
    for (; text != nullptr && *entry != nullptr; ++entry) {
      const char* const value = strchr(*entry, '=') + 1;
      to = static_cast<char*>(mempcpy(to, *entry, static_cast<size_t>(value - *entry)));
      to = stpcpy(Quote(value, to), " ");
    }
    // The last word is its $0, which is in its messages.
    if (text != nullptr) to = stpcpy(Quote(command, stpcpy(to, "exec /bin/sh -c ")), " sh");
    if (text != nullptr && static_cast<size_t>(to - text) >= kMaxArgument) {
      free(text);
      text = nullptr;
    }
  }
  free(memory);
  return text;
}

// Calls `start(command)` with one that sets the variables. Keeps errno.
template <typename Start>
auto WithShellCommand(const char* command, Start start) {
  char* const with = Follows(AT_FDCWD, "/bin/sh", 0) ? ShellCommand(command) : nullptr;
  const auto result = start(with == nullptr ? command : with);
  const int error = errno;
  free(with);
  errno = error;
  return result;
}

void BeforeExit(int status) {
  if (void (*const exits)(int) = g_exits) exits(status);
}

}  // namespace

extern "C" {

TORCHTRACE_EXPORT void torchtrace_watch_exit(void (*exits)(int)) { g_exits = exits; }

TORCHTRACE_EXPORT void _exit(int status) {
  BeforeExit(status);
  Nexts().exit(status);
  __builtin_unreachable();
}

TORCHTRACE_EXPORT void _Exit(int status) noexcept {
  BeforeExit(status);
  Nexts().exit(status);
  __builtin_unreachable();
}

TORCHTRACE_EXPORT int system(const char* command) {
  if (command == nullptr) return Nexts().system(command);
  return WithShellCommand(command, [](const char* with) { return Nexts().system(with); });
}

TORCHTRACE_EXPORT FILE* popen(const char* command, const char* mode) {
  return WithShellCommand(command, [mode](const char* with) { return Nexts().popen(with, mode); });
}

TORCHTRACE_EXPORT int execve(const char* path, char* const argv[], char* const envp[]) noexcept {
  if (!Follows(AT_FDCWD, path, 0)) return Nexts().execve(path, argv, envp);
  return WithVariables(envp, [&](char* const* with) { return Nexts().execve(path, argv, with); });
}

TORCHTRACE_EXPORT int execv(const char* path, char* const argv[]) noexcept { return execve(path, argv, environ); }

TORCHTRACE_EXPORT int execvpe(const char* file, char* const argv[], char* const envp[]) noexcept {
  if (!FollowsFound(file)) return Nexts().execvpe(file, argv, envp);
  return WithVariables(envp, [&](char* const* with) { return Nexts().execvpe(file, argv, with); });
}

TORCHTRACE_EXPORT int execvp(const char* file, char* const argv[]) noexcept { return execvpe(file, argv, environ); }

TORCHTRACE_EXPORT int execveat(int folder, const char* path, char* const argv[], char* const envp[],
                               int flags) noexcept {
  if (!Follows(folder, path, flags)) return Nexts().execveat(folder, path, argv, envp, flags);
  return WithVariables(envp, [&](char* const* with) { return Nexts().execveat(folder, path, argv, with, flags); });
}

TORCHTRACE_EXPORT int fexecve(int file, char* const argv[], char* const envp[]) noexcept {
  if (!Follows(file, "", AT_EMPTY_PATH)) return Nexts().fexecve(file, argv, envp);
  return WithVariables(envp, [&](char* const* with) { return Nexts().fexecve(file, argv, with); });
}

TORCHTRACE_EXPORT int execl(const char* path, const char* argument, ...) noexcept {
  va_list list;
  va_start(list, argument);
  const int result = WithArguments(argument, &list, [&](char** argv) { return execve(path, argv, environ); });
  va_end(list);
  return result;
}

TORCHTRACE_EXPORT int execlp(const char* file, const char* argument, ...) noexcept {
  va_list list;
  va_start(list, argument);
  const int result = WithArguments(argument, &list, [&](char** argv) { return execvpe(file, argv, environ); });
  va_end(list);
  return result;
}

TORCHTRACE_EXPORT int execle(const char* path, const char* argument, ...) noexcept {
  va_list list;
  va_start(list, argument);
  const int result =
      WithArguments(argument, &list, [&](char** argv) { return execve(path, argv, va_arg(list, char* const*)); });
  va_end(list);
  return result;
}

TORCHTRACE_EXPORT int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                                  const posix_spawnattr_t* attributes, char* const argv[], char* const envp[]) {
  if (!Follows(AT_FDCWD, path, 0)) return Nexts().posix_spawn(pid, path, actions, attributes, argv, envp);
  return WithVariables(
      envp, [&](char* const* with) { return Nexts().posix_spawn(pid, path, actions, attributes, argv, with); });
}

TORCHTRACE_EXPORT int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                                   const posix_spawnattr_t* attributes, char* const argv[], char* const envp[]) {
  if (!FollowsFound(file)) return Nexts().posix_spawnp(pid, file, actions, attributes, argv, envp);
  return WithVariables(
      envp, [&](char* const* with) { return Nexts().posix_spawnp(pid, file, actions, attributes, argv, with); });
}
}
