#include "dialects/torch/memory/memory_hook.h"

#include "dialects/torch/memory/cpu_memory.h"
#include "tracer/record/recorder.h"

namespace torchtrace::torch_dialect {
namespace {

constexpr char kNotOwnAllocator[] = "memory on the CPU: the program has an allocator of its own";

bool g_watches_cpu = false;

}  // namespace

absl::Status MemoryHook::Install() {
  g_watches_cpu = WatchCpuMemory();
  if (!g_watches_cpu) Recorder::Get()->NoteNotSeen(kNotOwnAllocator);
  return absl::OkStatus();
}

void MemoryHook::Uninstall() {
  if (g_watches_cpu && !UnwatchCpuMemory()) Recorder::Get()->NoteNotSeen(kNotOwnAllocator);
  g_watches_cpu = false;
}

}  // namespace torchtrace::torch_dialect
