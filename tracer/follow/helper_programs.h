// Programs of Python's and PyTorch's own, which run no code of the program: they are not traced. Needs nothing but the
// C library, as this folder does.

#ifndef TORCHTRACE_TRACER_FOLLOW_HELPER_PROGRAMS_H_
#define TORCHTRACE_TRACER_FOLLOW_HELPER_PROGRAMS_H_

#include <string.h>

namespace torchtrace {

// Whether a Python's command line is that of one. multiprocessing's fork server is none: its forks are the program's.
inline bool IsHelper(int argc, const char* const* argv) {
  constexpr char kTracker[] = "from multiprocessing.resource_tracker import main";
  constexpr char kCompiler[] = "torch/_inductor/compile_worker/__main__.py";
  for (int i = 1; i < argc; ++i) {
    const char* const next = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(argv[i], "-c") == 0) return strncmp(next, kTracker, strlen(kTracker)) == 0;
    if (strcmp(argv[i], "-m") == 0) return strcmp(next, "torch._inductor.compile_worker") == 0;
    if (strcmp(argv[i], "-X") == 0 || strcmp(argv[i], "-W") == 0) ++i;
    if (*argv[i] == '-') continue;
    const size_t bytes = strlen(argv[i]), end = strlen(kCompiler);
    return bytes >= end && strcmp(argv[i] + bytes - end, kCompiler) == 0;
  }
  return false;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_FOLLOW_HELPER_PROGRAMS_H_
