// The calls of two traces as sequences, thread by thread, and which threads belong together.

#ifndef TORCHTRACE_SERIALIZE_DIFF_CALL_SEQUENCES_H_
#define TORCHTRACE_SERIALIZE_DIFF_CALL_SEQUENCES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// The calls of one thread and level, or of one thread, as a sequence of symbols (config_diff.h): four bytes a call.
// FindPlaces reads the trace a second time for more about a few of the calls, such as the calls around them.
struct CallSequence {
  uint32_t process = 0;  // index into trace.processes()
  uint32_t thread = 0;   // its number
  int level = 0;         // kAllLevels: calls of all levels
  std::vector<uint32_t> symbols;

  static constexpr int kAllLevels = -1;
};

// Sorted by process, thread and level. `symbols` is indexed by ConfigId; calls without a config, and those whose symbol
// is CommonConfigs::kLeftOut, are in no sequence. Call trace->Count() first. `has_later`, unless it is null: whether
// notes came later than their calls.
absl::StatusOr<std::vector<CallSequence>> ReadSequences(Trace* trace, const std::vector<uint32_t>& symbols,
                                                        bool levels_together, bool* has_later = nullptr);

// A call around another one.
struct OuterCall {
  uint64_t call = kNoCall;
  ConfigId config = kLostId;
};

// Where one call of a sequence is in its trace.
struct CallPlace {
  uint64_t call = kNoCall;  // its number in the trace, as `dump` shows it
  uint32_t depth = 0;
};

// A question about some calls of one sequence, with the answers.
struct SequenceQuery {
  uint32_t process = 0;
  uint32_t thread = 0;
  int level = 0;
  std::vector<uint64_t> positions;  // ascending
  std::vector<uint64_t> inner;      // ascending: those positions for which `outside` is wanted as well

  std::vector<CallPlace> places;                // one for each of `positions`
  std::vector<std::vector<OuterCall>> outside;  // the calls around each of `inner`, outermost first
};

// Stops reading after the last call that is asked for. Queries are sorted as sequences are.
absl::Status FindPlaces(Trace* trace, const std::vector<uint32_t>& symbols, std::vector<SequenceQuery>* queries);

struct ThreadId {
  uint32_t process = 0;  // index into trace.processes()
  uint32_t thread = 0;   // its number
  friend auto operator<=>(const ThreadId&, const ThreadId&) = default;
};

// Pairs the threads of two runs. Processes match by rank and role, threads by name and number; several that are alike
// match in order. The given threads are sorted.
std::vector<std::pair<ThreadId, ThreadId>> MatchThreads(const Trace& a, const std::vector<ThreadId>& a_threads,
                                                        const Trace& b, const std::vector<ThreadId>& b_threads);

// The sequences of both runs that belong together, by thread and level. Null where a side has none.
struct SequencePair {
  CallSequence* a = nullptr;
  CallSequence* b = nullptr;
};
std::vector<SequencePair> PairSequences(const Trace& a, std::vector<CallSequence>* a_sequences, const Trace& b,
                                        std::vector<CallSequence>* b_sequences);

// `rank 0, main-1234, thread 1 (worker)`
std::string DescribeThread(const Trace& trace, ThreadId thread);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_CALL_SEQUENCES_H_
