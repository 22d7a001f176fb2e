// Pointers of the process that were replaced, and how to put them back.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_PATCH_LIST_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_PATCH_LIST_H_

#include <cstdint>
#include <vector>

namespace torchtrace::python_dialect {

class PatchList {
 public:
  template <typename Pointer>
  void Replace(Pointer* place, Pointer value) {
    static_assert(sizeof(Pointer) == sizeof(void*));
    ReplaceWord(reinterpret_cast<void**>(place), reinterpret_cast<void*>(value));
  }
  void ReplaceNumber(uint32_t* place, uint32_t value);

  // Puts everything back, the last one first. What somebody else has replaced
  // since stays theirs.
  void UndoAll();

 private:
  struct Word {
    void** place;
    void* before;
    void* after;
    uint32_t* number_place;  // instead of `place`
    uint32_t number_before;
    uint32_t number_after;
  };
  void ReplaceWord(void** place, void* value);

  std::vector<Word> words_;
};

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_PATCH_LIST_H_
