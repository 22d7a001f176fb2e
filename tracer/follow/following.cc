#include "tracer/follow/following.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

#include "serialize/base/log_folder.h"
#include "tracer/follow/follow.h"
#include "tracer/follow/preloadable.h"
#include "tracer/record/export.h"

extern char** environ;

namespace torchtrace {
namespace {

// The list of what can't be followed grows no further.
constexpr off_t kMaxNotedBytes = 64 << 10;

char g_task[sizeof kFollowTask + PATH_MAX];  // NAME=VALUE
char g_library[PATH_MAX];
std::atomic<bool> g_follows{false};

// The value of a variable in an environment; null: it isn't there.
const char* Find(char* const* environment, std::string_view name) {
  for (char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    if (strncmp(*entry, name.data(), name.size()) == 0 && (*entry)[name.size()] == '=') return *entry + name.size() + 1;
  }
  return nullptr;
}

size_t Count(char* const* environment) {
  size_t count = 0;
  while (environment != nullptr && environment[count] != nullptr) ++count;
  return count;
}

}  // namespace

const char* FollowedTask() { return g_follows ? g_task + sizeof kFollowTask : nullptr; }
const char* FollowingLibrary() { return g_library; }

void NoteNotFollowed(const char* task, const char* file, const char* why) {
  const int error = errno;
  char path[PATH_MAX + sizeof kNotFollowedName];
  const size_t folder = static_cast<size_t>(strrchr(task, '/') - task) + 1;
  memcpy(path, task, folder);
  strcpy(path + folder, kNotFollowedName);
  if (const int list = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
      list >= 0) {
    struct stat info;
    char line[PATH_MAX + 200];
    const int bytes = snprintf(line, sizeof line, "%s\t%s", why, file);
    if (bytes > 0 && static_cast<size_t>(bytes) + 1 < sizeof line && fstat(list, &info) == 0 &&
        S_ISREG(info.st_mode) && info.st_size < kMaxNotedBytes) {
      for (int i = 0; i < bytes; ++i) {
        if (line[i] == '\n') line[i] = ' ';
      }
      line[bytes] = '\n';
      if (write(list, line, static_cast<size_t>(bytes) + 1) < 0) {
        // There is no other place to note it.
      }
    }
    close(list);
  }
  errno = error;
}

bool Follows(int folder, const char* path, int flags) {
  const char* const task = FollowedTask();
  if (task == nullptr || path == nullptr) return false;
  Preloadable preloadable = IsPreloadable(folder, path, flags);
  // In another root folder, or as another user, the dynamic linker would complain.
  const int error = errno;
  if (preloadable.yes && faccessat(AT_FDCWD, g_library, R_OK, AT_EACCESS) != 0) {
    preloadable = {.why_not = "torchtrace's library can't be read there"};
  }
  errno = error;
  if (preloadable.why_not != nullptr) NoteNotFollowed(task, path, preloadable.why_not);
  return preloadable.yes;
}

bool FollowsFound(const char* name) {
  if (FollowedTask() == nullptr || name == nullptr) return false;
  if (strchr(name, '/') != nullptr) return Follows(AT_FDCWD, name, 0);
  const char* folders = Find(environ, "PATH");
  if (folders == nullptr) folders = "/bin:/usr/bin";
  const int error = errno;
  for (const char* end = folders; *name != '\0'; folders = end + 1) {
    end = strchrnul(folders, ':');
    char path[PATH_MAX];
    const int bytes =
        snprintf(path, sizeof path, "%.*s%s%s", static_cast<int>(end - folders), folders, end == folders ? "" : "/", name);
    struct stat info;
    if (bytes > 0 && static_cast<size_t>(bytes) < sizeof path && access(path, X_OK) == 0 && stat(path, &info) == 0 &&
        S_ISREG(info.st_mode)) {
      errno = error;
      return Follows(AT_FDCWD, path, 0);
    }
    if (*end == '\0') break;
  }
  errno = error;
  return false;
}

size_t FollowedEnvironment::BytesFor(char* const* environment) {
  const char* const theirs = Find(environment, kPreloadLibraries);
  return (Count(environment) + 3) * sizeof(char*) + sizeof kPreloadLibraries + strlen(g_library) + 2 +
         (theirs == nullptr ? 0 : strlen(theirs));
}

FollowedEnvironment::FollowedEnvironment(char* const* environment, void* memory) : list_(static_cast<char**>(memory)) {
  const size_t count = Count(environment);
  if (count != 0) memcpy(list_, environment, count * sizeof(char*));
  char* const preload = reinterpret_cast<char*>(list_ + count + 3);
  const char* theirs = Find(environment, kPreloadLibraries);
  if (theirs != nullptr && *theirs == '\0') theirs = nullptr;
  // AddressSanitizer's has to be the first.
  const bool behind = theirs != nullptr && strstr(theirs, "asan") != nullptr;
  char* at = stpcpy(stpcpy(preload, kPreloadLibraries), "=");
  if (behind) at = stpcpy(stpcpy(at, theirs), ":");
  at = stpcpy(at, g_library);
  if (theirs != nullptr && !behind) stpcpy(stpcpy(at, ":"), theirs);
  list_[count] = preload;
  list_[count + 1] = g_task;
  list_[count + 2] = nullptr;
}

}  // namespace torchtrace

extern "C" TORCHTRACE_EXPORT bool torchtrace_follow(const char* task, const char* library) {
  using namespace torchtrace;
  g_follows = false;
  if (task == nullptr) return true;
  if (strlen(task) >= PATH_MAX || strlen(library) >= PATH_MAX || strpbrk(library, ": \t\n") != nullptr) return false;
  strcpy(stpcpy(stpcpy(g_task, kFollowTask), "="), task);
  strcpy(g_library, library);
  g_follows = true;
  return true;
}
