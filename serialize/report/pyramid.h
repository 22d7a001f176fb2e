// A timeline at all zooms: the calls of tracks, in levels of a pyramid (docs/internals/REPORT_DATA.md, "Timeline").

#ifndef TORCHTRACE_SERIALIZE_REPORT_PYRAMID_H_
#define TORCHTRACE_SERIALIZE_REPORT_PYRAMID_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace torchtrace {

// Takes calls as they end, and keeps at most about as many rows as it may: it drops the finest level then.
class Pyramid {
 public:
  struct Row {
    uint32_t start = 0;     // ticks
    uint32_t duration = 0;  // the same
    uint32_t depth = 0;
    uint32_t label = 0;  // of merged calls that of the longest
    uint32_t count = 1;
    uint32_t busy = 255;  // of merged calls the part of the bin that they fill
    uint32_t call = 0;
  };
  struct Level {
    uint32_t bin_ticks = 0;
    std::vector<Row> calls, merged;  // by start
  };

  // `ticks`: of the whole timeline.
  Pyramid(uint32_t ticks, size_t most_rows);

  // Of a track, calls of a depth begin one after the other. Counts are sums.
  void Add(size_t track, const Row& call);

  // Once, after the last call: a track's levels, the finest first.
  std::vector<Level> Take(size_t track);

 private:
  // Calls of one bin and depth that are shorter than the bin.
  struct Bin {
    uint64_t number = UINT64_MAX;  // of the bin; none
    uint64_t busy_ticks = 0;
    Row merged;
    uint32_t longest = 0;
  };
  struct LevelOfTrack {
    std::vector<Row> calls, merged;
    std::vector<Bin> open;  // by depth
  };

  void Merge(size_t level, const Row& call, LevelOfTrack* into);
  void Close(size_t level, Bin* bin, LevelOfTrack* into);
  void DropFinest();

  std::vector<uint32_t> bins_;  // ticks, ascending
  size_t coarsest_ = 0;         // that pages need; those above are there if it must go
  size_t finest_ = 0;           // that is left
  const size_t most_rows_;
  size_t rows_ = 0;
  std::vector<std::vector<LevelOfTrack>> tracks_;  // by level
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORT_PYRAMID_H_
