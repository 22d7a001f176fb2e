// A thread's table of bytes that it knows, with what it knows of them: a hash table (open addressing). Entries live in
// an arena until Clear. Not thread-safe.

#ifndef TORCHTRACE_TRACER_RECORD_INTERN_TABLE_H_
#define TORCHTRACE_TRACER_RECORD_INTERN_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

namespace torchtrace {

// `Data`: a struct without a destructor.
template <typename Data>
class InternTable {
 public:
  struct Entry : Data {
    uint32_t size;  // of the bytes, which follow the struct
    std::string_view bytes() const { return {reinterpret_cast<const char*>(this + 1), size}; }
  };

  // Null when the bytes are unknown.
  Entry* Find(uint64_t hash, std::string_view bytes) const {
    if (cells_.empty()) return nullptr;
    for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
      const Cell& cell = cells_[at];
      if (cell.entry == nullptr) return nullptr;
      if (cell.hash == hash && cell.entry->bytes() == bytes) return cell.entry;
    }
  }

  // The bytes must be unknown. The entry's data are zero.
  Entry* Insert(uint64_t hash, std::string_view bytes) {
    if (4 * (used_ + 1) > 3 * cells_.size()) Grow();
    char* const memory = Allocate(sizeof(Entry) + bytes.size());
    Entry* const entry = new (memory) Entry{};
    entry->size = static_cast<uint32_t>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), memory + sizeof(Entry));
    Place({hash, entry});
    ++used_;
    return entry;
  }

  // Memory held, for the process's budget.
  uint64_t memory() const { return memory_; }
  void Clear() { *this = InternTable(); }

 private:
  static constexpr size_t kFirstCells = 256;  // a power of two
  static constexpr size_t kBlockBytes = 32 << 10;

  struct Cell {
    uint64_t hash = 0;
    Entry* entry = nullptr;
  };

  void Place(Cell cell) {
    size_t at = cell.hash & mask_;
    while (cells_[at].entry != nullptr) at = (at + 1) & mask_;
    cells_[at] = cell;
  }

  void Grow() {
    std::vector<Cell> old(std::max(kFirstCells, 2 * cells_.size()));
    old.swap(cells_);  // only now, as the allocation may throw
    mask_ = cells_.size() - 1;
    memory_ += (cells_.size() - old.size()) * sizeof(Cell);
    for (const Cell& cell : old) {
      if (cell.entry != nullptr) Place(cell);
    }
  }

  char* Allocate(size_t bytes) {
    bytes = (bytes + alignof(Entry) - 1) / alignof(Entry) * alignof(Entry);
    if (static_cast<size_t>(block_end_ - block_at_) < bytes) {
      const size_t block_bytes = std::max(bytes, kBlockBytes);
      blocks_.push_back(std::make_unique_for_overwrite<char[]>(block_bytes));
      block_at_ = blocks_.back().get();
      block_end_ = block_at_ + block_bytes;
      memory_ += block_bytes;
    }
    char* const result = block_at_;
    block_at_ += bytes;
    return result;
  }

  std::vector<Cell> cells_;
  size_t mask_ = 0;
  size_t used_ = 0;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* block_at_ = nullptr;
  char* block_end_ = nullptr;
  uint64_t memory_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_INTERN_TABLE_H_
