// Threads that native code starts, as the executable and the preloaded library see them: their
// pthread_create comes before the C library's for everything that the process loads. Where another executable runs the
// program
// (`import torchtrace` under python) nobody sees them, and the function isn't there.
//
// Not counted are the workers of BLAS libraries, which run nothing of a program's, and Python's threads
// while somebody watches, which arm themselves.

#ifndef TORCHTRACE_TRACER_RECORD_NATIVE_THREADS_H_
#define TORCHTRACE_TRACER_RECORD_NATIVE_THREADS_H_

// For dlsym. `started` is called, on any thread, before the next such thread
// starts; at once, too, if one has started already. It may be called again later, and by several threads
// at once. Null: no longer.
extern "C" void torchtrace_watch_native_threads(void (*started)());

namespace torchtrace {
inline constexpr char kWatchNativeThreadsName[] = "torchtrace_watch_native_threads";
using WatchNativeThreadsFunction = decltype(&torchtrace_watch_native_threads);
}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_NATIVE_THREADS_H_
