// How allocators' hooks record what happens.

#ifndef TORCHTRACE_DIALECTS_TORCH_MEMORY_NOTED_MEMORY_H_
#define TORCHTRACE_DIALECTS_TORCH_MEMORY_NOTED_MEMORY_H_

#include <atomic>
#include <cstdint>

#include "serialize/model/memory_event.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::torch_dialect {

// Where the address of a block is kept once it is noted that it holds a parameter. Blocks that share the place are
// noted more often.
inline std::atomic<uint64_t>& NotedParameter(uint64_t address) {
  static std::atomic<uint64_t> noted[1 << 16];
  return noted[address * 0x9E3779B97F4A7C15 >> 48];
}

// On any thread; needs no GIL. Does nothing without a session. False: it was known.
inline bool NoteMemory(const MemoryEvent& event) {
  ThreadState& thread = t_thread;
  if (event.address == 0 || !thread.InSession()) return false;
  std::atomic<uint64_t>& noted = NotedParameter(event.address);
  if (event.of_parameter()) {
    if (noted.exchange(event.address, std::memory_order_relaxed) == event.address) return false;
  } else if (!event.freed && noted.load(std::memory_order_relaxed) == event.address) {
    noted.store(0, std::memory_order_relaxed);
  }
  thread.recorder->Memory(event);
  return true;
}

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_MEMORY_NOTED_MEMORY_H_
