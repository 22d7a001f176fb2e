// Aligns two sequences of symbols: which of the one stand, in the same order, in
// the other. The result is an edit script as runs of kept, removed and added
// symbols. It is the shortest there is as long as the effort lasts. Where a search
// costs too much, its part is split at what is unique on both sides, and where there
// is nothing such at the furthest point that the search reached, so that sequences
// which have little in common are done in time as well. Memory goes with the
// lengths. Functions may be called from any thread.

#ifndef TORCHTRACE_SERIALIZE_DIFF_ALIGNMENT_H_
#define TORCHTRACE_SERIALIZE_DIFF_ALIGNMENT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace torchtrace {

// What happens to the next symbols. kSame and kChanged take as many from either side.
enum class RunKind : uint8_t { kSame, kChanged, kRemoved, kAdded };

// Runs in order; neighbours are of different kinds unless one is too long for a
// single entry. Four bytes a run.
class RunList {
 public:
  struct Run {
    RunKind kind;
    uint32_t count;
  };

  void Append(RunKind kind, uint64_t count);

  size_t size() const { return runs_.size(); }
  bool empty() const { return runs_.empty(); }
  Run operator[](size_t i) const { return {static_cast<RunKind>(runs_[i] & 3), runs_[i] >> 2}; }

 private:
  static constexpr uint32_t kMaxCount = UINT32_MAX >> 2;

  std::vector<uint32_t> runs_;  // count << 2 | kind
};

// How long to look for the shortest script; shared by all alignments of one task.
struct AlignEffort {
  // Steps that searches may still take, each a nanosecond or two.
  uint64_t left = 1'000'000'000;
  // Half the edits that one search looks for while there is effort left, and after.
  uint32_t max_cost = 16384;
  uint32_t min_cost = 256;
  // Set when a search gave up: what came out may not be the shortest.
  bool gave_up = false;
};

using Symbols = std::span<const uint32_t>;

// Symbols are below `symbol_count`. In each place of change what is removed stands
// before what is added.
RunList Align(Symbols a, Symbols b, size_t symbol_count, AlignEffort* effort);

// Makes removed and added symbols of one place changed ones where they belong
// together, in order: where `group_of[symbol]`, below `group_count`, is the same.
RunList PairChanged(const RunList& runs, Symbols a, Symbols b, std::span<const uint32_t> group_of, size_t group_count,
                    AlignEffort* effort);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_ALIGNMENT_H_
