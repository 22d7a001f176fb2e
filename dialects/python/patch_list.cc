#include "dialects/python/patch_list.h"

#include <cinttypes>
#include <cstdio>

namespace torchtrace::python_dialect {
namespace {

struct Range {
  uintptr_t begin;
  uintptr_t end;
};

std::vector<Range> ReadWritableRanges() {
  std::vector<Range> ranges;
  FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return ranges;
  char line[4096 + 256];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    Range range;
    char modes[5] = "";
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &range.begin, &range.end, modes) == 3 && modes[1] == 'w') {
      ranges.push_back(range);
    }
  }
  static_cast<void>(std::fclose(maps));
  return ranges;
}

bool Contains(const std::vector<Range>& ranges, uintptr_t address) {
  for (const Range& range : ranges) {
    if (address >= range.begin && address < range.end) return true;
  }
  return false;
}

}  // namespace

bool PatchList::Writable(const void* place) {
  // Read anew for an address that isn't known: libraries are loaded all the time.
  static auto* const ranges = new std::vector<Range>();
  const auto address = reinterpret_cast<uintptr_t>(place);
  if (Contains(*ranges, address)) return true;
  *ranges = ReadWritableRanges();
  return Contains(*ranges, address);
}

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
