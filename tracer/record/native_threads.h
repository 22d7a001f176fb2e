// Notices threads that native code starts. The executable and the preloaded library define pthread_create, which
// precedes the C library's for everything that the process loads. If another executable runs the program
// (`import torchtrace` under python), such threads aren't noticed, and the function below doesn't exist.
//
// Ignores the workers of BLAS libraries, which run no code of the program, and while a callback is set, Python's
// threads, which arm themselves.

#ifndef TORCHTRACE_TRACER_RECORD_NATIVE_THREADS_H_
#define TORCHTRACE_TRACER_RECORD_NATIVE_THREADS_H_

// Found by dlsym. Calls `started`, on any thread, before each such thread starts, and right away if one has started
// already; several threads may call it at the same time. Null: removes the callback.
extern "C" void torchtrace_watch_native_threads(void (*started)());

namespace torchtrace {
inline constexpr char kWatchNativeThreadsName[] = "torchtrace_watch_native_threads";
using WatchNativeThreadsFunction = decltype(&torchtrace_watch_native_threads);
}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_NATIVE_THREADS_H_
