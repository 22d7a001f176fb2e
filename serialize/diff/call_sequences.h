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

// The calls of a trace as sequences of symbols (config_diff.h), four bytes a
// call: one for each thread and level, or for each thread. What else is to be known
// of a few calls, such as what they are inside, a second reading finds out.

struct CallSequence {
  uint32_t process = 0;  // index into trace.processes()
  uint32_t thread = 0;   // its number
  int level = 0;         // kAllLevels when they stand together
  std::vector<uint32_t> symbols;

  static constexpr int kAllLevels = -1;
};

// By process, thread and level. `symbols` is by ConfigId; calls without one, or
// with CommonConfigs::kLeftOut, are in no sequence. `trace` was counted before.
absl::StatusOr<std::vector<CallSequence>> ReadSequences(Trace* trace, const std::vector<uint32_t>& symbols,
                                                        bool levels_together);

// A call around another one.
struct OuterCall {
  uint64_t call = kNoCall;
  ConfigId config = kLostId;
};

// What is known of one call of a sequence.
struct CallPlace {
  uint64_t call = kNoCall;  // its number in the trace, as `dump` shows it
  uint32_t depth = 0;
};

// Asks for some calls of one sequence, and takes the answers.
struct SequenceQuery {
  uint32_t process = 0;
  uint32_t thread = 0;
  int level = 0;
  std::vector<uint64_t> positions;  // rising
  std::vector<uint64_t> inner;      // rising; of those, the calls around each are wanted as well

  std::vector<CallPlace> places;                // by position
  std::vector<std::vector<OuterCall>> outside;  // by inner, outermost first
};

// Reads as far as the last call that is asked for. Queries are sorted as sequences are.
absl::Status FindPlaces(Trace* trace, const std::vector<uint32_t>& symbols, std::vector<SequenceQuery>* queries);

// Which thread of one run is which of another. Processes belong together by
// rank and role, threads by name and number, each in order where several are alike.

struct ThreadId {
  uint32_t process = 0;  // index into trace.processes()
  uint32_t thread = 0;   // its number
  friend auto operator<=>(const ThreadId&, const ThreadId&) = default;
};

// Of the threads given, sorted, those that belong together.
std::vector<std::pair<ThreadId, ThreadId>> MatchThreads(const Trace& a, const std::vector<ThreadId>& a_threads,
                                                        const Trace& b, const std::vector<ThreadId>& b_threads);

// `rank 0, main-1234, thread 1 (worker)`
std::string DescribeThread(const Trace& trace, ThreadId thread);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_CALL_SEQUENCES_H_
