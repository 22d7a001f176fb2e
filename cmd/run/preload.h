// What passes between the executable and libtorchtrace_preload.so, which takes the place of a Python program's main().
// The library is small, since all that the process loads later sees its symbols, and loads that of the verbs for
// itself.

#ifndef TORCHTRACE_CMD_RUN_PRELOAD_H_
#define TORCHTRACE_CMD_RUN_PRELOAD_H_

namespace torchtrace {

inline constexpr char kPreloadLibraries[] = "LD_PRELOAD";
// What is to be done: the path of the verbs' library, to run the command line. Empty: only to tell, by the exit code,
// whether the program exports Python's functions.
inline constexpr char kPreloadTask[] = "TORCHTRACE_PRELOADED";

}  // namespace torchtrace

// Of the verbs' library: torchtrace's main().
extern "C" int torchtrace_main(int argc, char** argv);

namespace torchtrace {
inline constexpr char kVerbsMainName[] = "torchtrace_main";
using VerbsMainFunction = decltype(&torchtrace_main);
}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_RUN_PRELOAD_H_
