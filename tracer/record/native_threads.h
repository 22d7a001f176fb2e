// Notices threads that native code starts. The executable and the preloaded library define pthread_create, which
// precedes the C library's for everything that the process loads. If another executable runs the program
// (`import torchtrace` under python), such threads aren't noticed, and the function below doesn't exist.
//
// Ignores the workers of BLAS libraries, which run no code of the program, and while the callbacks are set, the threads
// that Python's own functions start.

#ifndef TORCHTRACE_TRACER_RECORD_NATIVE_THREADS_H_
#define TORCHTRACE_TRACER_RECORD_NATIVE_THREADS_H_

// Found by dlsym. From now on each such thread calls `begun` before all else. Before one starts that can't, as its
// stack is too small, `cannot` is called on the thread that starts it. `is_pythons`: whether the calling thread is
// about to start one for Python. False: one may have started earlier.
extern "C" bool torchtrace_watch_native_threads(void (*begun)(), void (*cannot)(), bool (*is_pythons)());

namespace torchtrace {
inline constexpr char kWatchNativeThreadsName[] = "torchtrace_watch_native_threads";
using WatchNativeThreadsFunction = decltype(&torchtrace_watch_native_threads);
}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_NATIVE_THREADS_H_
