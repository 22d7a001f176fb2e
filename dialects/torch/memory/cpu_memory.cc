#include "dialects/torch/memory/cpu_memory.h"

#include <c10/core/CPUAllocator.h>

#include <cstddef>
#include <cstdint>

#include "serialize/model/memory_event.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::torch_dialect {
namespace {

// PyTorch's own, and its function that frees. Once set they stay, as blocks outlive sessions.
c10::Allocator* g_own = nullptr;
c10::DeleterFnPtr g_free = nullptr;

void NoteCpuMemory(bool freed, const void* address, size_t bytes) {
  ThreadState& thread = t_thread;
  if (address == nullptr || !thread.InSession()) return;
  thread.recorder->Memory({freed, {}, reinterpret_cast<uintptr_t>(address), bytes});
}

// Before the block is free: another thread may get it at once.
void NoteAndFree(void* block) {
  NoteCpuMemory(/*freed=*/true, block, 0);
  g_free(block);
}

class NotingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr data = g_own->allocate(bytes);
    // A block with another context is not freed by its address, so its end couldn't be noted.
    if (data.get() == data.get_context() && data.compare_exchange_deleter(g_free, NoteAndFree)) {
      NoteCpuMemory(/*freed=*/false, data.get(), bytes);
    }
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override { return NoteAndFree; }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return g_own->is_simple_data_ptr(data); }
  void copy_data(void* to, const void* from, size_t bytes) const override { g_own->copy_data(to, from, bytes); }
};

// Storages keep a pointer to it.
NotingAllocator& Noting() {
  static NotingAllocator* const noting = new NotingAllocator;
  return *noting;
}

}  // namespace

bool WatchCpuMemory() {
  c10::Allocator* const own = c10::GetDefaultCPUAllocator();
  if (own == nullptr || c10::GetCPUAllocator() != own || own->raw_deleter() == nullptr) return false;
  g_own = own;
  g_free = own->raw_deleter();
  // With PyTorch's own priority, so that the program's allocator would replace this one too.
  c10::SetCPUAllocator(&Noting());
  return c10::GetCPUAllocator() == &Noting();
}

bool UnwatchCpuMemory() {
  if (c10::GetCPUAllocator() != &Noting()) return false;
  c10::SetCPUAllocator(g_own);
  return true;
}

}  // namespace torchtrace::torch_dialect
