// The first action of a program that was started with the variables: takes them off.

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string_view>

#include "tracer/follow/follow.h"

namespace torchtrace {
namespace {

char g_inherited_task[PATH_MAX];

// This library as LD_PRELOAD names it.
const char* g_own_name = "";

// The value of `entry` if it is the variable of this name, else null.
char* ValueOf(char* entry, std::string_view name) {
  const bool is_it = strncmp(entry, name.data(), name.size()) == 0 && entry[name.size()] == '=';
  return is_it ? entry + name.size() + 1 : nullptr;
}

// Where this library is in a list of LD_PRELOAD; null: it isn't.
char* FindOwn(char* list) {
  const size_t bytes = strlen(g_own_name);
  const auto separates = [](char c) { return c == ':' || c == ' ' || c == '\0'; };
  for (char* at = list; bytes != 0 && (at = strstr(at, g_own_name)) != nullptr; at += bytes) {
    if ((at == list || separates(at[-1])) && separates(at[bytes])) return at;
  }
  return nullptr;
}

// Takes the library out of a list. False: nothing else is in it.
bool TakeOwn(char* list) {
  char* const own = FindOwn(list);
  char* const rest = own + strlen(g_own_name);
  if (*rest != '\0') {
    const size_t moved = strlen(rest);
    memmove(own, rest + 1, moved);
    memset(own + moved, 0, static_cast<size_t>(rest - own));
  } else if (own != list) {
    own[-1] = '\0';
  }
  return *rest != '\0' || own != list;
}

// The end of the environment that the kernel knows (/proc/PID/environ), at the first byte of ours. Where it may not be
// moved, zeros stand there.
void HideFromKernel(char* first, const char* end) {
  memset(first, 0, static_cast<size_t>(end - first));
  char text[1024];
  const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  const ssize_t bytes = read(file, text, sizeof text - 1);
  close(file);
  if (bytes <= 0) return;
  text[bytes] = '\0';
  // proc(5) numbers the fields from 1; the program's name, the second one, may contain anything.
  char* at = strrchr(text, ')');
  if (at == nullptr || at[1] == '\0' || at[2] == '\0') return;
  at += 3;  // behind the state, a letter
  unsigned long long fields[64] = {};
  for (int field = 4; field < 60 && *at != '\0'; ++field) fields[field] = strtoull(at, &at, 10);
  prctl_mm_map map = {};
  map.start_code = fields[26];
  map.end_code = fields[27];
  map.start_stack = fields[28];
  map.start_data = fields[45];
  map.end_data = fields[46];
  map.start_brk = fields[47];
  map.brk = reinterpret_cast<uintptr_t>(sbrk(0));
  map.arg_start = fields[48];
  map.arg_end = fields[49];
  map.env_start = fields[50];
  map.env_end = reinterpret_cast<uintptr_t>(first);
  map.exe_fd = static_cast<__u32>(-1);
  syscall(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
}

void TakeVariables(char** environment) {
  size_t count = 0, preloads = 0;
  const char* task = nullptr;
  for (; environment[count] != nullptr; ++count) {
    if (char* const value = ValueOf(environment[count], kFollowTask)) task = value;
    if (ValueOf(environment[count], kPreloadLibraries) != nullptr) ++preloads;
  }
  if (task == nullptr) return;
  if (strlen(task) < sizeof g_inherited_task) strcpy(g_inherited_task, task);
  size_t kept = 0;
  // Those that stood behind all others.
  char* first = nullptr;
  const char* end = nullptr;
  for (size_t i = 0; i < count; ++i) {
    char* const entry = environment[i];
    char* const list = ValueOf(entry, kPreloadLibraries);
    bool ours = ValueOf(entry, kFollowTask) != nullptr;
    if (list != nullptr && FindOwn(list) != nullptr) {
      // A shell passes on one of two: then the program's own libraries are in it.
      ours = preloads > 1 || !TakeOwn(list);
      if (ours) --preloads;
    }
    if (!ours) {
      environment[kept++] = entry;
      first = nullptr;
      continue;
    }
    if (first == nullptr) first = entry;
    end = entry + strlen(entry) + 1;
  }
  for (size_t i = kept; i < count; ++i) environment[i] = nullptr;
  // Who looks for the auxiliary vector behind the environment's null finds an entry of it there, which says nothing.
  if (kept + 2 == count) environment[kept + 1] = reinterpret_cast<char*>(uintptr_t{AT_IGNORE});
  if (first != nullptr) HideFromKernel(first, end);
}

// The library is linked with `-z initfirst`.
[[gnu::constructor]] void Inherit(int, char**, char** environment) {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&InheritedTask), &info) != 0 && info.dli_fname != nullptr) {
    g_own_name = info.dli_fname;
  }
  TakeVariables(environment);
  const char* const task = InheritedTask();
  // The executable follows what it starts with a task of its own, and through its own functions.
  Dl_info first;
  const bool is_executable = dladdr(dlsym(RTLD_DEFAULT, kFollowName), &first) != 0 && first.dli_fbase != info.dli_fbase;
  if (task != nullptr && !is_executable) BeginToFollow(task, g_own_name);
}

}  // namespace

const char* InheritedTask() { return *g_inherited_task == '\0' ? nullptr : g_inherited_task; }

}  // namespace torchtrace
