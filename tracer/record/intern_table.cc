#include "tracer/record/intern_table.h"

#include <algorithm>

namespace torchtrace {
namespace {
constexpr size_t kFirstCells = 256;  // a power of two
constexpr size_t kBlockBytes = 32 << 10;
}  // namespace

InternTable::Entry* InternTable::Insert(uint64_t hash, std::string_view config, uint32_t identity_bytes) {
  if (4 * (used_ + 1) > 3 * cells_.size()) Grow();
  char* const memory = Allocate(sizeof(Entry) + config.size());
  Entry* const entry = new (memory) Entry{};
  entry->config_bytes = static_cast<uint32_t>(config.size());
  entry->identity_bytes = identity_bytes;
  std::copy(config.begin(), config.end(), memory + sizeof(Entry));
  size_t at = hash & mask_;
  while (cells_[at].entry != nullptr) at = (at + 1) & mask_;
  cells_[at] = {hash, entry};
  ++used_;
  return entry;
}

void InternTable::Clear() { *this = InternTable(); }

void InternTable::Grow() {
  std::vector<Cell> old(std::max(kFirstCells, 2 * cells_.size()));
  old.swap(cells_);  // only now, as the allocation may throw
  mask_ = cells_.size() - 1;
  bytes_ += (cells_.size() - old.size()) * sizeof(Cell);
  for (const Cell& cell : old) {
    if (cell.entry == nullptr) continue;
    size_t at = cell.hash & mask_;
    while (cells_[at].entry != nullptr) at = (at + 1) & mask_;
    cells_[at] = cell;
  }
}

char* InternTable::Allocate(size_t bytes) {
  bytes = (bytes + alignof(Entry) - 1) / alignof(Entry) * alignof(Entry);
  if (static_cast<size_t>(block_end_ - block_at_) < bytes) {
    const size_t block_bytes = std::max(bytes, kBlockBytes);
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(block_bytes));
    block_at_ = blocks_.back().get();
    block_end_ = block_at_ + block_bytes;
    bytes_ += block_bytes;
  }
  char* const result = block_at_;
  block_at_ += bytes;
  return result;
}

}  // namespace torchtrace
