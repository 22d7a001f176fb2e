// A thread's table of the configurations it knows: a hash table (open addressing) from a config's bytes to an entry.
// Entries live in an arena until Clear. Not thread-safe.

#ifndef TORCHTRACE_TRACER_RECORD_INTERN_TABLE_H_
#define TORCHTRACE_TRACER_RECORD_INTERN_TABLE_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace torchtrace {

class InternTable {
 public:
  struct Entry {
    uint32_t frame;         // number of the frame that last defined it; 0 while the next call takes a stack or notes
    uint32_t definition;    // its number in that frame
    uint32_t defined_in;    // number of the frame that last defined it, always
    uint16_t stacks;        // how many stacks of its calls were taken
    uint16_t notes;         // how many first notes of its calls were taken
    uint32_t config_bytes;  // identity and facets; they follow the struct
    uint32_t identity_bytes;
    const char* bytes() const { return reinterpret_cast<const char*>(this + 1); }
    std::string_view config() const { return {bytes(), config_bytes}; }
    std::string_view identity() const { return {bytes(), identity_bytes}; }
    std::string_view facets() const { return config().substr(identity_bytes); }
  };

  // Null when the config is unknown.
  Entry* Find(uint64_t hash, std::string_view config) const {
    if (cells_.empty()) return nullptr;
    for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
      const Cell& cell = cells_[at];
      if (cell.entry == nullptr) return nullptr;
      if (cell.hash == hash && cell.entry->config() == config) return cell.entry;
    }
  }

  // The config must be unknown. No frame defines the entry yet (frame 0).
  Entry* Insert(uint64_t hash, std::string_view config, uint32_t identity_bytes);

  // Bytes held, for the process's budget.
  uint64_t bytes() const { return bytes_; }
  void Clear();

 private:
  struct Cell {
    uint64_t hash = 0;
    Entry* entry = nullptr;
  };
  void Grow();
  char* Allocate(size_t bytes);

  std::vector<Cell> cells_;
  size_t mask_ = 0;
  size_t used_ = 0;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* block_at_ = nullptr;
  char* block_end_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_INTERN_TABLE_H_
