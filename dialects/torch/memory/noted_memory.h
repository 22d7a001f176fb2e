// How allocators' hooks record what happens.

#ifndef TORCHTRACE_DIALECTS_TORCH_MEMORY_NOTED_MEMORY_H_
#define TORCHTRACE_DIALECTS_TORCH_MEMORY_NOTED_MEMORY_H_

#include "serialize/model/memory_event.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::torch_dialect {

// On any thread; needs no GIL. Does nothing without a session.
inline void NoteMemory(const MemoryEvent& event) {
  ThreadState& thread = t_thread;
  if (event.address == 0 || !thread.InSession()) return;
  thread.recorder->Memory(event);
}

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_MEMORY_NOTED_MEMORY_H_
