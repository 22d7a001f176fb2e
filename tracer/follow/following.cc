#include "tracer/follow/following.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <string_view>

#include "tracer/follow/follow.h"
#include "tracer/follow/not_followed.h"
#include "tracer/follow/preloadable.h"
#include "tracer/record/export.h"

extern char** environ;

namespace torchtrace {
namespace {

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

// Programs that start no others, and that Python's own modules start: ctypes.util.find_library.
bool StartsNothing(const char* path) {
  const char* const slash = strrchr(path, '/');
  const char* const name = slash == nullptr ? path : slash + 1;
  return strcmp(name, "ldconfig") == 0 || strcmp(name, "ldconfig.real") == 0;
}

size_t Count(char* const* environment) {
  size_t count = 0;
  while (environment != nullptr && environment[count] != nullptr) ++count;
  return count;
}

// What forked processes have to tell, in memory that they share: that they have handed on the task, and lines that they
// could not append.
class SharedNotes {
 public:
  std::atomic<bool> handed_on{false};

  void Add(const char* text, size_t bytes) {
    const size_t at = bytes_.fetch_add(bytes);
    if (at + bytes <= sizeof text_) memcpy(text_ + at, text, bytes);
  }
  template <typename Visit>
  void Take(Visit visit) {
    const size_t bytes = bytes_.exchange(0);
    if (bytes != 0) visit(text_, bytes < sizeof text_ ? bytes : strnlen(text_, sizeof text_));
  }

 private:
  std::atomic<size_t> bytes_{0};
  char text_[(16 << 10) - 2 * sizeof(bytes_)] = {};
};
SharedNotes* g_notes = nullptr;

}  // namespace

bool BeginToFollow(const char* task, const char* library) {
  g_follows = false;
  if (strlen(task) >= PATH_MAX || strlen(library) >= PATH_MAX || strpbrk(library, ": \t\n") != nullptr) return false;
  strcpy(stpcpy(stpcpy(g_task, kFollowTask), "="), task);
  strcpy(g_library, library);
  g_follows = true;
  return true;
}

const char* FollowedTask() { return g_follows ? g_task + sizeof kFollowTask : nullptr; }

void NoteNotFollowed(const char* task, const char* file, const char* why) {
  const NotFollowed note(file, why);
  if (!AppendNotFollowed(task, note.line(), note.bytes()) && g_notes != nullptr) {
    g_notes->Add(note.line(), note.bytes());
  }
}

bool Follows(int folder, const char* path, int flags) {
  const char* const task = FollowedTask();
  if (task == nullptr || path == nullptr) return false;
  Preloadable preloadable = IsPreloadable(folder, path, flags);
  const int error = errno;
  struct stat info;
  if (preloadable.yes && faccessat(AT_FDCWD, g_library, R_OK, AT_EACCESS) != 0) {
    // The dynamic linker would complain.
    preloadable = {.why_not = errno == ENOENT ? "torchtrace's libtorchtrace_preload.so is not there"
                                              : "torchtrace's library can't be read there, by this user"};
  } else if (preloadable.yes && lstat(task, &info) != 0) {
    // ENOENT: another run has the folder.
    preloadable = {.why_not = errno == ENOENT ? nullptr : "it runs as another user, or in another root folder"};
  } else if (preloadable.yes && info.st_uid != geteuid()) {
    preloadable = {.why_not = "it runs as another user"};
  }
  // What searches PATH tries files that can't be executed, too.
  const bool noted = preloadable.why_not != nullptr && !StartsNothing(path) &&
                     ((flags & AT_EMPTY_PATH) != 0 || faccessat(folder, path, X_OK, AT_EACCESS) == 0);
  errno = error;
  if (noted) NoteNotFollowed(task, path, preloadable.why_not);
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
    const int bytes = snprintf(path, sizeof path, "%.*s%s%s", static_cast<int>(end - folders), folders,
                               end == folders ? "" : "/", name);
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

FollowedEnvironment::FollowedEnvironment(char* const* environment)
    : environment_(environment), count_(Count(environment)), theirs_(Find(environment, kPreloadLibraries)) {
  if (theirs_ != nullptr && *theirs_ == '\0') theirs_ = nullptr;
  preload_bytes_ = sizeof kPreloadLibraries + strlen(g_library) + 2 + (theirs_ == nullptr ? 0 : strlen(theirs_));
  if (g_notes != nullptr) g_notes->handed_on = true;
}

char* const* FollowedEnvironment::Make(void* memory) const {
  auto** const list = static_cast<char**>(memory);
  if (count_ != 0) memcpy(list, environment_, count_ * sizeof(char*));
  char* const preload = reinterpret_cast<char*>(list + count_ + 3);
  // AddressSanitizer's has to be the first.
  const bool behind = theirs_ != nullptr && strstr(theirs_, "asan") != nullptr;
  char* at = stpcpy(stpcpy(preload, kPreloadLibraries), "=");
  if (behind) at = stpcpy(stpcpy(at, theirs_), ":");
  at = stpcpy(at, g_library);
  if (theirs_ != nullptr && !behind) stpcpy(stpcpy(at, ":"), theirs_);
  list[count_] = preload;
  list[count_ + 1] = g_task;
  list[count_ + 2] = nullptr;
  return list;
}

}  // namespace torchtrace

extern "C" {

TORCHTRACE_EXPORT bool torchtrace_follow(const char* task, const char* library) {
  using namespace torchtrace;
  if (task != nullptr && !BeginToFollow(task, library)) return false;
  if (g_follows && g_notes == nullptr) {
    void* const memory = mmap(nullptr, sizeof(SharedNotes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) g_notes = new (memory) SharedNotes;
  }
  return g_follows;
}

TORCHTRACE_EXPORT void torchtrace_note_not_followed(const char* command, const char* why) {
  using namespace torchtrace;
  if (FollowedTask() == nullptr) return;
  if (why != nullptr) NoteNotFollowed(FollowedTask(), command, why);
  if (g_notes != nullptr)
    g_notes->Take([](const char* text, size_t bytes) { AppendNotFollowed(FollowedTask(), text, bytes); });
}

TORCHTRACE_EXPORT void torchtrace_hand_on_task() {
  if (torchtrace::g_notes != nullptr) torchtrace::g_notes->handed_on = true;
}

TORCHTRACE_EXPORT bool torchtrace_task_handed_on() {
  return torchtrace::g_notes == nullptr || torchtrace::g_notes->handed_on;
}
}
