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

// An environment with the two variables behind another one. What it is made of is looked at once, as other threads may
// change it.
class FollowedEnvironment {
 public:
  // `environment` may be null.
  explicit FollowedEnvironment(char* const* environment);
  // How much memory Make needs.
  size_t bytes() const { return (count_ + 3) * sizeof(char*) + preload_bytes_; }
  char* const* Make(void* memory) const;

 private:
  char* const* const environment_;
  size_t count_ = 0;
  const char* theirs_ = nullptr;  // the program's own list of libraries
  size_t preload_bytes_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_FOLLOW_FOLLOWING_H_
