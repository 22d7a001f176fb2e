#include "dialects/python/setattr/patch_list.h"

namespace torchtrace::python_dialect {
void PatchList::ReplaceWord(void** place, void* value) {
  words_.push_back({place, *place, value, nullptr, 0, 0});
  *place = value;
}

void PatchList::ReplaceNumber(uint32_t* place, uint32_t value) {
  words_.push_back({nullptr, nullptr, nullptr, place, *place, value});
  *place = value;
}

void PatchList::UndoAll() {
  for (auto word = words_.rbegin(); word != words_.rend(); ++word) {
    if (word->place != nullptr) {
      if (*word->place == word->after) *word->place = word->before;
    } else if (*word->number_place == word->number_after) {
      *word->number_place = word->number_before;
    }
  }
  // And the memory: the list may live on.
  std::vector<Word>().swap(words_);
}

}  // namespace torchtrace::python_dialect
