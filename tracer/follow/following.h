// What this process follows, and the variables with which it starts others. Runs in forked and vforked children of any
// program: allocates nothing on the heap, takes no lock.

#ifndef TORCHTRACE_TRACER_FOLLOW_FOLLOWING_H_
#define TORCHTRACE_TRACER_FOLLOW_FOLLOWING_H_

#include <cstddef>

namespace torchtrace {

// Whether the process follows, and `path` can be preloaded. Notes what can't. `folder` and `flags` as execveat has
// them.
bool Follows(int folder, const char* path, int flags);

// The same for a name that execvp looks for in PATH.
bool FollowsFound(const char* name);

// An environment with the two variables behind `environment`, which may be null.
class FollowedEnvironment {
 public:
  // `memory`: of BytesFor(environment).
  FollowedEnvironment(char* const* environment, void* memory);
  static size_t BytesFor(char* const* environment);
  char* const* get() const { return list_; }

 private:
  char** const list_;
};

// Of the library in LD_PRELOAD lists.
const char* FollowingLibrary();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_FOLLOW_FOLLOWING_H_
