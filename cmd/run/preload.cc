#include "cmd/run/preload.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int PreloadedMain(int argc, char** argv, char** environment) {
  const char* const task = getenv(kPreloadTask);
  if (task == nullptr) return g_python_main(argc, argv, environment);
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

}  // namespace
}  // namespace torchtrace

// Replaces the C library's function, which every program calls with its main().
extern "C" int __libc_start_main(torchtrace::Main python_main, int argc, char** argv, void (*init)(), void (*fini)(),
                                 void (*unload)(), void* stack_end) {
  torchtrace::g_python_main = python_main;
  const auto start = reinterpret_cast<torchtrace::StartMain>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(torchtrace::PreloadedMain, argc, argv, init, fini, unload, stack_end);
}
