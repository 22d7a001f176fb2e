// The memory of another process, by address there. Needs the right to trace it; nothing of it runs meanwhile or stops.

#ifndef TORCHTRACE_TRACER_ATTACH_REMOTE_MEMORY_H_
#define TORCHTRACE_TRACER_ATTACH_REMOTE_MEMORY_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace torchtrace {

// False, with errno, if some of the bytes can't be read.
bool ReadMemory(pid_t pid, uint64_t address, void* to, size_t bytes);
bool WriteMemory(pid_t pid, uint64_t address, std::string_view bytes);

template <typename Value>
  requires std::is_trivially_copyable_v<Value>
bool ReadMemory(pid_t pid, uint64_t address, Value* value) {
  return ReadMemory(pid, address, static_cast<void*>(value), sizeof *value);
}

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_ATTACH_REMOTE_MEMORY_H_
