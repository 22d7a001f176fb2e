#include "serialize/log/mapped_frames.h"

#include <sys/mman.h>

#include <atomic>
#include <new>

#include "serialize/log/log_format.h"

namespace torchtrace {
namespace {

// A frame in one word, so that a handler never sees half of one: the number of its first page,
// then of its pages. 0: none.
constexpr int kPagesBits = 21;  // frames are below 4 GiB

uint64_t Pack(const void* begin, uint64_t bytes) {
  return reinterpret_cast<uintptr_t>(begin) / kPageBytes << kPagesBits | bytes / kPageBytes;
}
uintptr_t BeginOf(uint64_t frame) { return (frame >> kPagesBits) * kPageBytes; }
uint64_t BytesOf(uint64_t frame) { return (frame & ((uint64_t{1} << kPagesBits) - 1)) * kPageBytes; }

// As many as were ever mapped at one time; never freed.
struct Frames {
  std::atomic<uint64_t> frames[63] = {};
  std::atomic<Frames*> more{nullptr};
};
Frames g_frames;

// Puts `to` where `from` stands.
bool Exchange(uint64_t from, uint64_t to, Frames* table) {
  for (std::atomic<uint64_t>& frame : table->frames) {
    uint64_t expected = from;
    if (frame.load(std::memory_order_relaxed) == from && frame.compare_exchange_strong(expected, to)) return true;
  }
  return false;
}

}  // namespace

void AddMappedFrame(const void* begin, uint64_t bytes) {
  for (Frames* table = &g_frames;;) {
    if (Exchange(0, Pack(begin, bytes), table)) return;
    Frames* next = table->more.load();
    if (next == nullptr) {
      auto* const made = new (std::nothrow) Frames;
      if (made == nullptr) return;
      if (table->more.compare_exchange_strong(next, made)) {
        next = made;
      } else {
        delete made;
      }
    }
    table = next;
  }
}

void RemoveMappedFrame(const void* begin, uint64_t bytes) {
  for (Frames* table = &g_frames; table != nullptr; table = table->more.load()) {
    if (Exchange(Pack(begin, bytes), 0, table)) return;
  }
}

void ForgetMappedFrames() {
  for (Frames* table = &g_frames; table != nullptr; table = table->more.load()) {
    for (std::atomic<uint64_t>& frame : table->frames) frame = 0;
  }
}

bool MapZerosOverFrame(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (Frames* table = &g_frames; table != nullptr; table = table->more.load()) {
    for (const std::atomic<uint64_t>& slot : table->frames) {
      const uint64_t frame = slot.load();
      if (frame == 0 || at < BeginOf(frame) || at - BeginOf(frame) >= BytesOf(frame)) continue;
      return mmap(reinterpret_cast<void*>(BeginOf(frame)), BytesOf(frame), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
    }
  }
  return false;
}

}  // namespace torchtrace
