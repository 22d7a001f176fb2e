#include "dialects/torch/memory/memory_hook.h"

#include <string>

#include "dialects/torch/memory/cpu_memory.h"
#include "dialects/torch/memory/cuda_memory.h"
#include "tracer/record/recorder.h"

namespace torchtrace::torch_dialect {
namespace {

constexpr char kNotOwnAllocator[] = "memory on the CPU: the program has an allocator of its own";

bool g_watches_cpu = false;

void Tell(const absl::Status& status) {
  if (!status.ok()) Recorder::Get()->NoteNotSeen(std::string(status.message()));
}

// Of this process's.
void TellOfDevices(const std::string& json) {
  if (!json.empty()) Recorder::Get()->AddOwnMetadata(json);
}

}  // namespace

absl::Status MemoryHook::Install() {
  g_watches_cpu = WatchCpuMemory();
  if (!g_watches_cpu) Recorder::Get()->NoteNotSeen(kNotOwnAllocator);
  Tell(WatchCudaMemory(torch_));
  TellOfDevices(CudaMemoryBefore());
  return absl::OkStatus();
}

void MemoryHook::Uninstall() {
  if (g_watches_cpu && !UnwatchCpuMemory()) Recorder::Get()->NoteNotSeen(kNotOwnAllocator);
  g_watches_cpu = false;
  TellOfDevices(CudaMemoryPeaks());
  Tell(UnwatchCudaMemory());
}

}  // namespace torchtrace::torch_dialect
