#include "tracer/python/writable_memory.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace torchtrace {
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

bool IsWritable(const void* place) {
  // Read anew for an address that isn't known: libraries are loaded all the time.
  static auto* const ranges = new std::vector<Range>();
  const auto address = reinterpret_cast<uintptr_t>(place);
  if (Contains(*ranges, address)) return true;
  *ranges = ReadWritableRanges();
  return Contains(*ranges, address);
}

}  // namespace torchtrace
