#include "cmd/run/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <initializer_list>

#include "tracer/follow/helper_programs.h"
#include "tracer/launch/runtime_api.h"

namespace torchtrace {
namespace {

using Main = int (*)(int, char**, char**);
using StartMain = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);

constexpr int kNotStarted = 125;  // `run` exits with it in this case

Main g_python_main = nullptr;

// Restores the environment for the program and everything that it starts: this library is the first in LD_PRELOAD.
void RestoreEnvironment() {
  unsetenv(kPreloadTask);
  const char* const libraries = getenv(kPreloadLibraries);
  const char* const colon = libraries != nullptr ? strchr(libraries, ':') : nullptr;
  char* const others = colon != nullptr ? strdup(colon + 1) : nullptr;
  if (others == nullptr) unsetenv(kPreloadLibraries);
  if (others != nullptr) setenv(kPreloadLibraries, others, 1);
  free(others);
}

// The Python in which a run continues.
int PreloadedMain(int argc, char** argv, char** /*environment*/) {
  const char* const task = getenv(kPreloadTask);
  if (*task == '\0') {
    if (dlsym(RTLD_DEFAULT, "Py_RunMain") != nullptr) return 0;
    fputs("it does not export Python's functions\n", stderr);
    return 1;
  }
  void* const verbs = dlopen(task, RTLD_NOW | RTLD_LOCAL);
  RestoreEnvironment();
  const auto verbs_main =
      verbs != nullptr ? reinterpret_cast<VerbsMainFunction>(dlsym(verbs, kVerbsMainName)) : nullptr;
  if (verbs_main != nullptr) return verbs_main(argc, argv);
  fprintf(stderr, "torchtrace: cannot load its verbs: %s\n", dlerror());
  return kNotStarted;
}

// Whether this program is a Python. Others have its functions, too (gdb, uwsgi).
bool IsPython() {
  char program[PATH_MAX];
  const ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
  if (bytes <= 0) return false;
  program[bytes] = '\0';
  const char* name = strrchr(program, '/');
  if (name == nullptr || strncmp(name, "/python", 7) != 0) return false;
  name += 7;
  // The kernel's mark of a file that was replaced.
  if (char* const deleted = strstr(program, " (deleted)")) *deleted = '\0';
  const size_t digits = strspn(name, "0123456789.");
  name += digits;
  if (digits == 0) return *name == '\0';
  // python3-dbg, python3.11.bin
  if (*name == '-' || name[-1] == '.') return true;
  // Of free-threaded, debug and older builds.
  for (const char* const build : {"", "t", "d", "td", "m"}) {
    if (strcmp(name, build) == 0) return true;
  }
  return false;
}

// The version of the Python that this program is or embeds; null: it has none.
const char* PythonVersion() {
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "Py_GetVersion"));
  return version != nullptr && dlsym(RTLD_DEFAULT, "Py_BytesMain") != nullptr ? version() : nullptr;
}

// The text of a task's file; null: it is not one that this user wrote (`why`), or its run's trace was replaced.
// Allocated.
char* ReadTask(const char* path, const char** why) {
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  *why = file >= 0 || errno != ENOENT ? "the run's task is not its user's own file" : nullptr;
  if (file < 0) return nullptr;
  struct stat info;
  char* text = nullptr;
  if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 0077) == 0) {
    const auto bytes = static_cast<size_t>(info.st_size);
    text = static_cast<char*>(malloc(bytes + 1));
    size_t done = 0;
    while (text != nullptr && done < bytes) {
      const ssize_t part = read(file, text + done, bytes - done);
      if (part <= 0) break;
      done += static_cast<size_t>(part);
    }
    if (text != nullptr) text[done] = '\0';
  }
  close(file);
  return text;
}

// What the lines of a task (tracer/launch/follow_task.h) say of this process.
struct Told {
  bool matches = true;  // the command line
  char runtime[PATH_MAX] = "";
};

// `minor`: "3.11".
void Read(const char* task, const char* minor, const char* command, Told* told) {
  bool only = false, matches = false;
  for (const char* line = task; *line != '\n' && *line != '\0';) {
    const char* const end = strchrnul(line, '\n');
    char text[PATH_MAX + 32];
    snprintf(text, sizeof text, "%.*s", static_cast<int>(end - line), line);
    const size_t bytes = strlen(minor);
    if (strncmp(text, "runtime ", 8) == 0 && strncmp(text + 8, minor, bytes) == 0 && text[8 + bytes] == ' ') {
      snprintf(told->runtime, sizeof told->runtime, "%s", text + 8 + bytes + 1);
    }
    if (strncmp(text, "only ", 5) == 0) {
      only = true;
      matches = matches || fnmatch(text + 5, command, 0) == 0;
    }
    line = *end == '\0' ? end : end + 1;
  }
  told->matches = !only || matches;
}

char* CommandLine(int argc, char** argv) {
  size_t bytes = 1;
  for (int i = 0; i < argc; ++i) bytes += strlen(argv[i]) + 1;
  auto* const text = static_cast<char*>(calloc(bytes, 1));
  char* to = text;
  for (int i = 0; text != nullptr && i < argc; ++i) to = stpcpy(stpcpy(to, i == 0 ? "" : " "), argv[i]);
  return text;
}

// A program that a traced one started. Whatever fails here, it runs as it would without us.
int FollowedMain(int argc, char** argv, char** environment) {
  const auto untraced = [&] { return g_python_main(argc, argv, environment); };
  const char* const version = PythonVersion();
  if (version == nullptr || IsHelper(argc, argv)) return untraced();
  const char* const path = InheritedTask();
  const char* why_not = nullptr;
  char* const task = ReadTask(path, &why_not);
  char* const command = CommandLine(argc, argv);
  if (task == nullptr && why_not != nullptr && command != nullptr) NoteNotFollowed(path, command, why_not);
  if (task == nullptr || command == nullptr) return untraced();
  int major = 0, minor = 0;
  sscanf(version, "%d.%d", &major, &minor);
  char number[32];
  snprintf(number, sizeof number, "%d.%d", major, minor);
  Told told;
  Read(task, number, command, &told);
  if (!told.matches) return untraced();
  const auto not_followed = [&](const char* why) {
    NoteNotFollowed(path, command, why);
    return untraced();
  };
  if (!IsPython()) return not_followed("it embeds Python, and isn't named python3");
  if (*told.runtime == '\0' || strstr(version, "free-threading") != nullptr) {
    char why[200];
    snprintf(why, sizeof why, "torchtrace has no runtime for Python %.60s", version);
    return not_followed(why);
  }
  void* const runtime = dlopen(told.runtime, RTLD_NOW | RTLD_GLOBAL);
  const auto follow =
      runtime != nullptr ? reinterpret_cast<RuntimeFollowFunction>(dlsym(runtime, kRuntimeFollowName)) : nullptr;
  if (follow == nullptr) {
    return not_followed(runtime == nullptr ? dlerror()
                                           : "its runtime is of another build of torchtrace: tools/torchtrace run "
                                             "--python builds it again");
  }
  char error[1024] = "";
  const int exit_code = follow(task, argc, argv, error, sizeof error);
  return exit_code >= 0 ? exit_code : not_followed(error);
}

}  // namespace
}  // namespace torchtrace

// Replaces the C library's function, which every program calls with its main().
extern "C" int __libc_start_main(torchtrace::Main python_main, int argc, char** argv, void (*init)(), void (*fini)(),
                                 void (*unload)(), void* stack_end) {
  torchtrace::g_python_main = python_main;
  const auto start = reinterpret_cast<torchtrace::StartMain>(dlsym(RTLD_NEXT, "__libc_start_main"));
  torchtrace::Main main = python_main;
  if (getenv(torchtrace::kPreloadTask) != nullptr) {
    main = torchtrace::PreloadedMain;
  } else if (torchtrace::FollowedTask() != nullptr) {
    main = torchtrace::FollowedMain;
  }
  return start(main, argc, argv, init, fini, unload, stack_end);
}
