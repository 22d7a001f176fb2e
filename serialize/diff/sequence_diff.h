// How two sequences of calls are aligned, and where they differ.

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

// What happens to the next symbols. kSame and kChanged consume equally many from both sides.
enum class RunKind : uint8_t { kSame, kChanged, kRemoved, kAdded };

// An edit script. Neighbouring runs are of different kinds, unless one is too long for a single entry. Four bytes a
// run.
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

// How long to search for the shortest script; shared by all alignments of one task.
struct AlignEffort {
  // Steps that searches may still take, each a nanosecond or two.
  uint64_t left = 1'000'000'000;
  // A search gives up after twice as many edits: max_cost while effort is left, min_cost after that.
  uint32_t max_cost = 16384;
  uint32_t min_cost = 256;
  // Set when a search gave up: the result may not be the shortest.
  bool gave_up = false;
};

using Symbols = std::span<const uint32_t>;

// Aligns two sequences. Symbols are below `symbol_count`. Where both removed and added symbols are in one place, the
// removed ones come first. The script is the shortest as long as the effort lasts. A box whose search costs too much is
// split at symbols that are unique on both sides, or else at the furthest point that the search reached, to finish in
// time for sequences with little in common as well. Memory grows with the lengths. Callable from any thread.
RunList Align(Symbols a, Symbols b, size_t symbol_count, AlignEffort* effort);

// Turns removed and added symbols of one place into changed ones if they are of the same group: `group_of[symbol]`,
// below `group_count`. Keeps the order.
RunList PairChanged(const RunList& runs, Symbols a, Symbols b, std::span<const uint32_t> group_of, size_t group_count,
                    AlignEffort* effort);

struct SequenceOptions {
  bool levels_together = false;  // one sequence per thread instead of one per level
  uint64_t context = 3;          // calls shown around a change
  uint64_t max_hunks = 20;       // kept, of all sequences together; 0: all
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
  // Its start and length in both sequences, including context.
  uint64_t a_first = 0, a_count = 0;
  uint64_t b_first = 0, b_count = 0;
  std::vector<HunkLine> lines;
  uint64_t lines_left_out = 0;
  size_t first_change = 0;         // index into lines
  bool outside_is_of_a = true;     // else of B
  std::vector<OuterCall> outside;  // the calls around its first changed call, outermost first
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
  // The sequence that diverges first, in order of calls; nullopt if no two sequences of one thread differ.
  std::optional<size_t> first;
  bool shortest = true;  // false: there may be alignments with fewer differences
  RunCounts counts = {};
  uint64_t hunk_count = 0;

  bool different() const;
};

// Aligns the calls of two traces, thread by thread and level by level, and finds where they differ: the first place,
// and hunks as in a unified diff. Fills `configs`, which must be empty. Reads each trace twice: its calls, then what
// surrounds those that are shown. Memory grows with the calls: at most about 16 bytes per call of both traces.
absl::StatusOr<SequenceDiffs> CompareSequences(Trace* a, Trace* b, const DiffScope& scope,
                                               const SequenceOptions& options, CommonConfigs* configs);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_SEQUENCE_DIFF_H_
