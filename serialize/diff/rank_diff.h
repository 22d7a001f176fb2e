// What the ranks of a run do together, aligned by process group: where they part, and who waits for whom.

#ifndef TORCHTRACE_SERIALIZE_DIFF_RANK_DIFF_H_
#define TORCHTRACE_SERIALIZE_DIFF_RANK_DIFF_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "serialize/diff/config_diff.h"
#include "serialize/diff/one_trace.h"
#include "serialize/trace/collective_traits.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// One rank's call of an operation.
struct RankCall {
  uint64_t call = kNoCall;
  uint32_t traits = 0;        // index into RankCalls::traits()
  ConfigId config = kLostId;  // of the outermost call that is the operation
  StackId stack = kNoStack;
  int64_t time_ns = 0;  // of its entry
  bool open = false;    // it, or the function or backward pass that called it
  bool raised = false;
};

// Takes the calls of a whole trace in order. Memory grows with the operations of torch.distributed, and with the open
// calls.
class RankCalls {
 public:
  using Sequence = std::vector<RankCall>;
  // Of a process.
  struct Progress {
    std::map<std::string, Sequence> groups;
    std::map<std::string, Sequence> peers;  // sends and receives
  };

  // Both must outlive it. Takes what `scope` accepts by name and level.
  RankCalls(const Trace* trace, const DiffScope* scope) : trace_(*trace), scope_(*scope) {}

  void Take(const CallRecord& record);

  // The index of traits of a config's calls; 0: they are none of these operations.
  uint32_t TraitsOf(ConfigId config);
  const CollectiveTraits& traits(uint32_t number) const { return traits_[number]; }
  // What processes did, as operators of level 2, or as functions of level 0 and 1, which call operators.
  const std::map<uint32_t, Progress>& operators() const { return operators_; }
  const std::map<uint32_t, Progress>& functions() const { return functions_; }
  // The open calls of a process's thread that has some, outermost first; empty: none has.
  std::vector<CallRecord> OpenOf(uint32_t process) const;

 private:
  struct Place {
    bool of_operators = false;
    bool of_peers = false;
    uint32_t process = 0;
    std::string group;
    size_t number = 0;
  };
  // The outermost open call of a kind, with the operations begun in it, itself included.
  struct Outermost {
    uint64_t call = kNoCall;
    uint32_t depth = 0;
    ConfigId config = kLostId;
    StackId stack = kNoStack;
    std::vector<Place> places;
  };
  struct Thread {
    std::vector<CallRecord> open;
    Outermost function, op;
    std::vector<std::pair<uint64_t, Place>> waits;  // operations, and the outermost call that may wait for them
  };

  void Enter(const CallRecord& record, uint32_t number, Thread* thread);
  void End(const CallRecord& record, Outermost* outermost);
  RankCall& At(const Place& place);

  const Trace& trace_;
  const DiffScope& scope_;
  std::vector<CollectiveTraits> traits_ = {{}};  // the first one: no operation
  std::vector<uint32_t> of_config_;
  std::map<uint32_t, Progress> operators_, functions_;
  std::map<std::pair<uint32_t, uint32_t>, Thread> threads_;
};

// `torchtrace diff --across-ranks`: the operations of torch.distributed of all ranks, aligned by process group: the
// first one of each group in which they differ, by operator, reduction, root, shape, dtype, device or count, who waits
// for whom, and sends that aren't received as they were sent; and the parameters that ranks share (rank_parameters.h).
//
// JSON: {"different", "trace", "ranks", "of": "operators" or "functions", "groups": [{"group", "ranks", "collectives",
// "first_difference": {"number", "in": ["shape"], "hint", "ranks": [{"rank", "call", "api", "config", "file", "line",
// "function", "open", "raised"}, of those that haven't come so far {"rank", "entered", "state", "inside"}]} or null}],
// "messages": {"matched", "different": [{"group", "from", "to", "tag", "number", "in", "sent", "received"}]},
// "parameters": [{"group", "ranks", "compared", "not_shared", "only_in_some", "first_difference": {"step", "when":
// "before" or "after", "parameters": [{"number", "tensor", "module", "ranks": [{"rank", "call", "api", "config",
// "file", "line", "function", "fingerprint"}]}]} or null}], "notes"}
//
// FailedPrecondition: there is nothing to compare. Returns whether they differ, even if writing to `out` fails: check
// its state.
absl::StatusOr<bool> WriteRankDiff(Trace* trace, const OneTraceDiffOptions& options, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_RANK_DIFF_H_
