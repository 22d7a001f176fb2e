// Arms levels on threads: on each Python thread that starts, before it does anything else.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_THREAD_STARTS_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_THREAD_STARTS_H_

#include <cstdint>

#include "tracer/record/static_tls.h"

namespace torchtrace::torch_dialect {

// Levels arm themselves on a thread by these; called with the GIL: when added
// on the calling thread, and at the start of each later one. A thread that is armed
// already may be armed again.
using ArmThread = void (*)();
void AddThreadArmer(ArmThread arm);
void RemoveThreadArmer(ArmThread arm);
void ArmThisThread();

// Changes whenever an armer is added: threads that were there before, or that C++ made, are armed
// at their next call of a function that level 1 enters.
extern uint64_t g_arming;
// Of which arming this thread has the levels' keys.
extern constinit thread_local uint64_t t_armed TORCHTRACE_STATIC_TLS;
inline bool ThisThreadIsArmed() { return t_armed == g_arming; }

// Makes every Python thread that starts from now on arm itself first. The
// function objects of the _thread module stay the same.
bool WatchThreadStarts();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_THREAD_STARTS_H_
