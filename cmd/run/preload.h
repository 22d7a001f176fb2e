// The interface between the executable and libtorchtrace_preload.so, which replaces the main() of a Python program. The
// library is small, because everything that the process loads later sees its symbols; it loads the library of the verbs
// privately.

#ifndef TORCHTRACE_CMD_RUN_PRELOAD_H_
#define TORCHTRACE_CMD_RUN_PRELOAD_H_

#include "tracer/follow/follow.h"

namespace torchtrace {

// The library's task. A path: load this library of verbs and run the command line. Empty: only report, by the exit
// code, whether the program exports Python's functions.
inline constexpr char kPreloadTask[] = "TORCHTRACE_PRELOADED";

}  // namespace torchtrace

// torchtrace's main(), in the library of the verbs.
extern "C" int torchtrace_main(int argc, char** argv);

namespace torchtrace {
inline constexpr char kVerbsMainName[] = "torchtrace_main";
using VerbsMainFunction = decltype(&torchtrace_main);
}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_RUN_PRELOAD_H_
