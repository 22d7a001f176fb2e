// Whether a file can be run with our library preloaded. Runs in forked and vforked children of any program: allocates
// nothing, takes no lock, keeps errno.

#ifndef TORCHTRACE_TRACER_FOLLOW_PRELOADABLE_H_
#define TORCHTRACE_TRACER_FOLLOW_PRELOADABLE_H_

namespace torchtrace {

struct Preloadable {
  bool yes = false;
  // Why not; null if exec says why, as the file doesn't exist or is no program.
  const char* why_not = nullptr;
};

// The file that exec runs for `path`: the interpreter of a script. `folder` and `flags` as execveat has them.
Preloadable IsPreloadable(int folder, const char* path, int flags);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_FOLLOW_PRELOADABLE_H_
