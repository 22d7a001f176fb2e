// What each thread of the traced program carries for the torch hooks, and the
// few facts that all threads share. Reading it costs one thread-local access.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_THREAD_STATE_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_THREAD_STATE_H_

#include <Python.h>

#include <cstdint>

#include "dialects/python/describe/guarded_description.h"
#include "serialize/model/config_builder.h"
#include "tracer/record/recorder.h"
#include "tracer/record/static_tls.h"

namespace torchtrace::torch_dialect {

struct ThreadState {
  ThreadRecorder* recorder = nullptr;  // null until the first call
  ConfigBuilder* config = nullptr;     // likewise
  int compiling = 0;                   // inside torch.compile's own work: nothing is the program's
  bool function_open = false;          // inside a call of level 1: what it calls is its own affair
  bool function_recorded = false;      // and that call was recorded
  bool describing = false;             // a call's description is under way
  uint64_t armed = 0;                  // this thread has the levels' keys of that arming

  // The recorder and its scratch, made at the first call. False when this
  // thread records nothing: recording has stopped or torch is compiling.
  bool Recording() {
    if (compiling != 0 || !Recorder::Recording()) [[unlikely]] {
      return false;
    }
    return recorder != nullptr || Attach();
  }
  bool Attach();

  template <typename Describe>
  bool DescribeBy(Describe&& describe) {
    return python_dialect::DescribeGuarded(&describing, describe);
  }
};

extern thread_local ThreadState t_state TORCHTRACE_STATIC_TLS;

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
inline bool ThisThreadIsArmed() { return t_state.armed == g_arming; }

// Makes every Python thread that starts from now on arm itself first. The
// function objects of the _thread module stay the same.
bool WatchThreadStarts();

// Says that compiled code may run: for where something is compiled, or was.
void NoteCompiledCode();

// A Python context manager around `context_manager_maker(*args)` that also
// marks its body as compiling: `wrap(install_callbacks)` in compile_watch.py.
PyObject* WrapCompileContext(PyObject* context_manager_maker);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_THREAD_STATE_H_
