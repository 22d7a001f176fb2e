// How two sequences of calls are aligned, and where they part.

#ifndef TORCHTRACE_SERIALIZE_DIFF_SEQUENCE_DIFF_H_
#define TORCHTRACE_SERIALIZE_DIFF_SEQUENCE_DIFF_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/diff/call_sequences.h"
#include "serialize/diff/config_diff.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Aligns two sequences of symbols: which of the one stand, in the same order, in
// the other. The result is an edit script as runs of kept, removed and added
// symbols. It is the shortest there is as long as the effort lasts. Where a search
// costs too much, its part is split at what is unique on both sides, and where there
// is nothing such at the furthest point that the search reached, so that sequences
// which have little in common are done in time as well. Memory goes with the
// lengths. Functions may be called from any thread.

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

// Aligns the calls of two traces, thread by thread and level by level, and finds
// where they differ: the first place, and then hunks as in a unified diff. Reads
// each trace twice: its calls, then what surrounds those that are shown. Memory goes
// with the calls, about 16 bytes for each of both traces at most.

struct SequenceOptions {
  bool levels_together = false;  // one sequence per thread instead of one per level
  uint64_t context = 3;          // calls shown around a change
  uint64_t max_hunks = 20;       // kept over all sequences; 0: all
  uint64_t max_calls = 100;      // lines kept of one hunk; 0: all
};

// A call of A, of B, or of both.
struct HunkLine {
  RunKind kind = RunKind::kSame;
  uint32_t a = CommonConfigs::kLeftOut;  // symbols
  uint32_t b = CommonConfigs::kLeftOut;
  CallPlace a_place;
  CallPlace b_place;
};

struct Hunk {
  // Where it starts in either sequence and how far it goes, context included.
  uint64_t a_first = 0, a_count = 0;
  uint64_t b_first = 0, b_count = 0;
  std::vector<HunkLine> lines;
  uint64_t lines_left_out = 0;
  size_t first_change = 0;         // index into lines
  bool outside_is_of_a = true;     // else of B
  std::vector<OuterCall> outside;  // around its first changed call, outermost first
};

using RunCounts = std::array<uint64_t, 4>;  // calls by RunKind; pairs count once

// One thread's calls, or those of one level, in both traces.
struct SequenceDiff {
  std::string a_thread;  // empty: the trace has no such thread, or no calls there
  std::string b_thread;
  int level = 0;  // CallSequence::kAllLevels
  uint64_t a_calls = 0;
  uint64_t b_calls = 0;
  RunCounts counts = {};
  uint64_t hunk_count = 0;  // found
  std::vector<Hunk> hunks;  // kept

  bool different() const { return counts[0] != a_calls || counts[0] != b_calls; }
};

struct SequenceDiffs {
  std::vector<SequenceDiff> sequences;
  // The one whose first hunk is the first divergence of all, in order of calls;
  // none when no two sequences of one thread differ.
  std::optional<size_t> first;
  bool shortest = true;  // false: there may be alignments with fewer differences
  RunCounts counts = {};
  uint64_t hunk_count = 0;

  bool different() const;
};

// Fills in `configs`, which is empty before.
absl::StatusOr<SequenceDiffs> CompareSequences(Trace* a, Trace* b, const DiffScope& scope,
                                               const SequenceOptions& options, CommonConfigs* configs);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_SEQUENCE_DIFF_H_
