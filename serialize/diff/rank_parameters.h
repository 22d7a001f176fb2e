// Parameters that the ranks of a run share, compared before and after each step of an optimizer.

#ifndef TORCHTRACE_SERIALIZE_DIFF_RANK_PARAMETERS_H_
#define TORCHTRACE_SERIALIZE_DIFF_RANK_PARAMETERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "serialize/diff/by_thread.h"
#include "serialize/diff/rank_diff.h"
#include "serialize/model/config.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// What a step of an optimizer did to a parameter.
struct ParameterUpdate {
  uint64_t tensor = 0;  // its number in its process
  uint64_t step = 0;    // of the process, from 0
  // The last call that wrote it, and where it is among the call's tensors.
  uint64_t call = kNoCall;
  ConfigId config = kLostId;
  uint64_t position = 0;
  StackId stack = kNoStack;
  int64_t time_ns = 0;             // of its end
  std::optional<uint64_t> before;  // its fingerprint when the step took it first
  TensorNote::Numbers after;
};

// The steps of optimizers, known by the scopes that torch.optim opens for them at levels 1 and 2. Parameters are
// tensors with requires_grad that are written in one. Memory grows with configs and the parameters of one step.
class OptimizerSteps {
 public:
  // Of a process, in the order of the first writes; none if the trace has no numbers.
  using Visitor = std::function<void(uint32_t process, const std::vector<ParameterUpdate>&)>;

  // The trace must outlive it.
  OptimizerSteps(const Trace* trace, Visitor visitor) : trace_(*trace), visitor_(std::move(visitor)) {}

  // Takes the calls of a whole trace in order.
  void Take(const CallRecord& record);

  bool BeginsDistributedForward(ConfigId config) { return RoleOf(config) == kDistributedForward; }
  // Of a call in a step; null: none.
  const Value* TensorAt(ConfigId config, uint64_t position);

 private:
  enum Role : uint8_t { kUnread, kNone, kStep, kDistributedForward, kScope, kScopeEnd };
  struct OpenCall {
    uint64_t call = kNoCall;
    uint32_t depth = 0;
    ConfigId config = kLostId;
    VariantId variant = kLostId;
    StackId stack = kNoStack;
    std::string notes;
  };
  struct Thread {
    std::vector<bool> scopes;  // whether each is a step
    size_t steps = 0;          // among them
    OpenCall scope_call;       // that opens or closes a scope
    std::vector<OpenCall> open;
    absl::flat_hash_map<uint64_t, uint64_t> before;  // fingerprints, by tensor
    absl::flat_hash_map<uint64_t, size_t> numbers;   // indices into updates, by tensor
    std::vector<ParameterUpdate> updates;
  };
  struct Arguments {
    Config config;
    std::vector<const Value*> tensors;
  };

  Role RoleOf(ConfigId config);
  const std::vector<uint64_t>& ParametersOf(VariantId variant);
  void Enter(const CallRecord& record, Thread* thread);
  void TakeArguments(const CallRecord& record, Thread* thread);
  void TakeResults(const CallRecord& record, const OpenCall& call, Thread* thread);
  void EndStep(uint32_t process, Thread* thread);

  const Trace& trace_;
  const Visitor visitor_;
  std::vector<uint8_t> roles_;                         // by config
  std::vector<std::unique_ptr<Arguments>> arguments_;  // by config, of calls in steps
  std::vector<std::optional<std::vector<uint64_t>>>
      parameters_;                      // by variant: the positions of tensors that may be some
  std::map<uint32_t, uint64_t> steps_;  // by process
  ByThread<Thread> threads_;
  std::vector<TensorNote> notes_, results_;
};

// A parameter whose values differ, of all ranks of a group.
struct DifferingParameter {
  struct Value {
    int64_t rank = 0;
    uint32_t process = 0;
    uint64_t fingerprint = 0;
    ParameterUpdate update;
    uint64_t updates = 0;  // in the whole trace
  };
  size_t number = 0;          // among the group's, from 0
  std::string tensor;         // `Tensor([3, 4], "float32")`
  ConfigId module = kLostId;  // the innermost that used it first
  std::vector<Value> values;
};

struct GroupParameters {
  std::string group;
  std::vector<std::pair<int64_t, uint32_t>> ranks;  // and their processes
  size_t shared = 0;                                // parameters that are compared
  uint64_t least_updates = 0;                       // of one of these, in the ranks
  uint64_t most_updates = 0;
  size_t only_in_some = 0;     // updated by some ranks only, or of other shapes
  size_t same = 0;             // not known to be shared, and the same
  size_t not_shared = 0;       // nothing shows that ranks share them, and they differ
  bool same_at_first = false;  // these are the same on all ranks before their first update
  // Of shared ones, at the first step where some differ.
  uint64_t step = 0;    // from 0
  bool before = false;  // it
  std::vector<DifferingParameter> different;
};

// Finds the parameters that ranks share: their gradients were all-reduced over the group, by their sizes; or there is a
// DistributedDataParallel, the default group is the only one of all-reductions, and they are the same before their
// first update. Memory grows with parameters and the all-reductions of a step.
class RankParameters {
 public:
  // Both must outlive it.
  RankParameters(Trace* trace, RankCalls* calls);

  // Takes the calls of a whole trace in order.
  void Take(const CallRecord& record);

  // Whether some process's optimizer makes steps.
  bool has_steps() const { return has_steps_; }

  // Fills in the rest of groups with their names and ranks. Reads the trace again if something differs; then memory
  // also grows with how far ranks run ahead of each other. `has_later`: it has notes that came later than their calls.
  absl::Status Compare(bool has_later, std::vector<GroupParameters>* groups);

 private:
  struct Parameter {
    uint64_t tensor = 0;
    std::string text;  // `Tensor([3, 4], "float32")`
    int64_t elements = 0;
    uint64_t updates = 0;
    uint64_t hash = 0;                // of all its values
    std::optional<uint64_t> first;    // its fingerprint before the first update
    std::vector<std::string> groups;  // that its gradient was reduced over
  };
  struct Process {
    std::map<uint64_t, Parameter> parameters;  // by tensor: in the order in which they were seen
    // Since the last step, by group, and whether they are operators: numbers of elements.
    std::map<std::pair<std::string, bool>, std::vector<int64_t>> reduced;
    bool distributed = false;        // has a DistributedDataParallel
    bool reduces_in_groups = false;  // other than the default one
  };
  // A parameter on each rank of a group.
  struct Row {
    size_t number = 0;
    std::vector<const Parameter*> ranks;
  };

  void TakeStep(uint32_t process, const std::vector<ParameterUpdate>& updates);
  void NoteReductions(const std::vector<ParameterUpdate>& updates, Process* process);
  // Which ones are one, by shape and order.
  std::vector<Row> Match(GroupParameters* group) const;
  static bool SameAtFirst(const Row& row);
  bool IsShared(const Row& row, const GroupParameters& group) const;
  absl::Status FindDifferences(bool has_later, const std::vector<std::vector<Row>>& rows,
                               std::vector<GroupParameters>* groups);

  Trace* const trace_;
  RankCalls* const calls_;
  OptimizerSteps steps_;
  bool has_steps_ = false;
  std::map<uint32_t, Process> processes_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_RANK_PARAMETERS_H_
