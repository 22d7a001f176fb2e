// Lookup of what is patched, by address, and a list to undo patches.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_PATCH_LIST_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_PATCH_LIST_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace torchtrace::python_dialect {

// A hash table from addresses to pointers, for look-ups at every call. Entries are never removed. Guarded by the GIL.
template <typename Value>
class PointerMap {
 public:
  // Null if not found.
  Value* Find(const void* key) const {
    for (size_t i = Start(key, cells_.size()); !cells_.empty(); i = (i + 1) & (cells_.size() - 1)) {
      if (cells_[i].key == key) return cells_[i].value;
      if (cells_[i].key == nullptr) break;
    }
    return nullptr;
  }

  void Insert(const void* key, Value* value) {
    if (2 * (used_ + 1) > cells_.size()) Grow();
    Cell& cell = Place(&cells_, key);
    used_ += cell.key == nullptr;
    cell = {key, value};
  }

 private:
  struct Cell {
    const void* key = nullptr;
    Value* value = nullptr;
  };

  static size_t Start(const void* key, size_t cells) {
    const uint64_t mixed = (reinterpret_cast<uintptr_t>(key) >> 4) * 0x9e3779b97f4a7c15u;
    return static_cast<size_t>(mixed >> 32) & (cells - 1);
  }
  static Cell& Place(std::vector<Cell>* cells, const void* key) {
    size_t i = Start(key, cells->size());
    while ((*cells)[i].key != nullptr && (*cells)[i].key != key) i = (i + 1) & (cells->size() - 1);
    return (*cells)[i];
  }
  void Grow() {
    std::vector<Cell> larger(cells_.empty() ? 64 : 2 * cells_.size());
    for (const Cell& cell : cells_) {
      if (cell.key != nullptr) Place(&larger, cell.key) = cell;
    }
    cells_.swap(larger);
  }

  std::vector<Cell> cells_;
  size_t used_ = 0;
};

// The pointers that were replaced, and how to restore them.
class PatchList {
 public:
  template <typename Pointer>
  void Replace(Pointer* place, Pointer value) {
    static_assert(std::is_pointer_v<Pointer>);
    ReplaceWord(reinterpret_cast<void**>(place), reinterpret_cast<void*>(value));
  }
  void ReplaceNumber(uint32_t* place, uint32_t value) {
    words_.push_back({nullptr, nullptr, nullptr, place, *place, value});
    *place = value;
  }

  // Restores everything, the last one first, except what other code has replaced since.
  void UndoAll() {
    for (auto word = words_.rbegin(); word != words_.rend(); ++word) {
      if (word->place != nullptr) {
        if (*word->place == word->after) *word->place = word->before;
      } else if (*word->number_place == word->number_after) {
        *word->number_place = word->number_before;
      }
    }
    // Frees the memory too: the list may live on.
    std::vector<Word>().swap(words_);
  }

 private:
  struct Word {
    void** place;
    void* before;
    void* after;
    uint32_t* number_place;  // used instead of `place`
    uint32_t number_before;
    uint32_t number_after;
  };
  void ReplaceWord(void** place, void* value) {
    words_.push_back({place, *place, value, nullptr, 0, 0});
    *place = value;
  }

  std::vector<Word> words_;
};

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_PATCH_LIST_H_
