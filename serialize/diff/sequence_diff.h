// Aligns the calls of two traces, thread by thread and level by level, and finds
// where they differ: the first place, and then hunks as in a unified diff. Reads
// each trace twice: its calls, then what surrounds those that are shown. Memory goes
// with the calls, about 16 bytes for each of both traces at most.

#ifndef TORCHTRACE_SERIALIZE_DIFF_SEQUENCE_DIFF_H_
#define TORCHTRACE_SERIALIZE_DIFF_SEQUENCE_DIFF_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/diff/alignment.h"
#include "serialize/diff/call_sequences.h"
#include "serialize/diff/common_configs.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

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
