// Memory that PyTorch's allocators hand out and take back.

#ifndef TORCHTRACE_SERIALIZE_MODEL_MEMORY_EVENT_H_
#define TORCHTRACE_SERIALIZE_MODEL_MEMORY_EVENT_H_

#include <cstdint>

namespace torchtrace {

// Whose memory it is. The numbers are those of the log.
enum class MemoryKind : uint8_t { kCpu = 0, kCuda = 1 };
inline constexpr uint64_t kMemoryKinds = 2;
// Of a kind, as c10::DeviceIndex allows.
inline constexpr uint64_t kMostMemoryDevices = 128;

struct MemoryDevice {
  MemoryKind kind = MemoryKind::kCpu;
  uint32_t index = 0;

  friend auto operator<=>(const MemoryDevice&, const MemoryDevice&) = default;
};

// An allocation, the end of one, or what a block is used for. Blocks that live at the same time on a device of a
// process differ by address.
struct MemoryEvent {
  bool freed = false;
  MemoryDevice device = {};
  uint64_t address = 0;
  uint64_t bytes = 0;  // as asked for; of an end 0 if the allocator does not say

  // What isn't freed and has no bytes: the block at the address holds a parameter.
  bool of_parameter() const { return !freed && bytes == 0; }
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_MEMORY_EVENT_H_
