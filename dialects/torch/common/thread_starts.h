// Arms levels on each Python thread that starts, before it does anything else.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_THREAD_STARTS_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_THREAD_STARTS_H_

#include <cstdint>

#include "tracer/record/static_tls.h"

namespace torchtrace::torch_dialect {

// Arms a level on the calling thread. Called with the GIL: on the thread that adds it, and at the start of each later
// thread. It may be called on a thread that is armed already.
using ArmThread = void (*)();
void AddThreadArmer(ArmThread arm);
void RemoveThreadArmer(ArmThread arm);
void ArmThisThread();

// Changes whenever an armer is added. Threads that run already, or that C++ made, are armed at their next call of a
// function that level 1 enters.
extern uint64_t g_arming;
// The value of g_arming when this thread was last armed.
extern constinit thread_local uint64_t t_armed TORCHTRACE_STATIC_TLS;
inline bool ThisThreadIsArmed() { return t_armed == g_arming; }

// Makes every Python thread that starts from now on arm itself first. The function objects of the _thread module stay
// the same.
bool WatchThreadStarts();
// Whether the calling thread is inside one of these functions, and so may be starting such a thread.
bool StartsPythonThread();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_THREAD_STARTS_H_
