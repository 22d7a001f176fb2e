// Which memory lives, and how much it is, from a trace's records of kind kMemory.

#ifndef TORCHTRACE_SERIALIZE_TRACE_LIVE_MEMORY_H_
#define TORCHTRACE_SERIALIZE_TRACE_LIVE_MEMORY_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "serialize/model/memory_event.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// A device as one process uses it.
struct ProcessDevice {
  uint32_t process = 0;
  MemoryDevice device = {};

  friend auto operator<=>(const ProcessDevice&, const ProcessDevice&) = default;
};

// The bytes that an event counts for: damaged logs may tell any number, whose sums would overflow.
inline constexpr uint64_t kMostBytes = uint64_t{1} << 44;
inline uint64_t CountedBytes(const MemoryEvent& event) { return std::min(event.bytes, kMostBytes); }

// Whether some process of the trace recorded memory.
inline bool HasMemory(const Trace& trace) {
  const std::vector<ProcessInfo>& processes = trace.processes();
  return std::any_of(processes.begin(), processes.end(),
                     [](const ProcessInfo& process) { return process.known.memory; });
}

// Takes records in the order of Trace::Read. `Owner`: what a reader knows of a block.
template <typename Owner>
class LiveMemory {
 public:
  struct Block {
    uint64_t bytes = 0;
    Owner owner = {};
    bool parameter = false;
  };
  struct Totals {
    uint64_t live = 0;         // with `before`
    uint64_t before = 0;       // of it, from before the trace
    uint64_t ends_before = 0;  // blocks from before the trace that ended in it
    uint64_t peak = 0;
    uint64_t peak_at = 0;  // the number of the allocation that reached it first, counted from 1; 0: there is none
    uint64_t allocations = 0;
  };
  // Bytes that were alive before the first record.
  void Begin(const ProcessDevice& device, uint64_t bytes) {
    Totals& totals = devices_[device];
    totals.before = std::min(bytes, kMostBytes);
    totals.live += totals.before;
    totals.peak = std::max(totals.peak, totals.live);
  }

  // Returns the block that ends: the one that is freed, or one at the address of a new block, whose end was not
  // recorded.
  std::optional<Block> Apply(uint32_t process, const MemoryEvent& event, Owner owner = {}) {
    const ProcessDevice device = {process, event.device};
    std::optional<Block> ended;
    absl::flat_hash_map<uint64_t, Block>& blocks = blocks_[device];
    const auto at = blocks.find(event.address);
    if (event.of_parameter()) {
      if (at != blocks.end()) at->second.parameter = true;
      return ended;
    }
    Totals& totals = devices_[device];
    if (at != blocks.end()) {
      ended = std::move(at->second);
      totals.live -= ended->bytes;
      if (event.freed) blocks.erase(at);
    }
    if (event.freed) {
      if (!ended.has_value()) {
        const uint64_t bytes = std::min(CountedBytes(event), totals.before);
        ++totals.ends_before;
        totals.before -= bytes;
        totals.live -= bytes;
      }
      return ended;
    }
    const Block block = {CountedBytes(event), std::move(owner)};
    totals.live += block.bytes;
    ++totals.allocations;
    if (totals.live > totals.peak) {
      totals.peak = totals.live;
      totals.peak_at = totals.allocations;
    }
    if (at != blocks.end()) {
      at->second = block;
    } else {
      blocks.emplace(event.address, block);
    }
    return ended;
  }

  const std::map<ProcessDevice, Totals>& devices() const { return devices_; }
  // The block at the event's address; null: none is known.
  const Block* Find(uint32_t process, const MemoryEvent& event) const {
    const auto of = blocks_.find(ProcessDevice{process, event.device});
    if (of == blocks_.end()) return nullptr;
    const auto at = of->second.find(event.address);
    return at == of->second.end() ? nullptr : &at->second;
  }
  // Calls `visit(device, block)` for all that live.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const auto& [device, blocks] : blocks_) {
      for (const auto& [address, block] : blocks) visit(device, block);
    }
  }
  // Calls `visit(block)` for those of a device.
  template <typename Visit>
  void ForEachOf(const ProcessDevice& device, const Visit& visit) const {
    const auto of = blocks_.find(device);
    if (of == blocks_.end()) return;
    for (const auto& [address, block] : of->second) visit(block);
  }

 private:
  std::map<ProcessDevice, absl::flat_hash_map<uint64_t, Block>> blocks_;  // by address
  std::map<ProcessDevice, Totals> devices_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_LIVE_MEMORY_H_
