// The calls of a trace as a folded call tree: calls with the same label under the same parent are one node.

#ifndef TORCHTRACE_SERIALIZE_TRACE_CALL_TREE_H_
#define TORCHTRACE_SERIALIZE_TRACE_CALL_TREE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "serialize/base/choices.h"
#include "serialize/trace/call_costs.h"
#include "serialize/trace/node_makers.h"
#include "serialize/trace/recent_calls.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// What nodes weigh: time; that of devices, in nanoseconds; bytes that were allocated; FLOPs, which count once over all
// levels (call_costs.h).
enum class TreeWeight : uint8_t { kTime, kDevice, kMemory, kFlops };
const Choices<TreeWeight>& TreeWeights();
// FailedPrecondition, with how to record it, for a trace that has none.
absl::Status CheckWeight(const Trace& trace, TreeWeight weight, std::string_view name);
// What to read for them.
RecordsShown ShownFor(const std::vector<TreeWeight>& weights);

// Of all weights but time.
class TreeAmounts {
 public:
  double Of(TreeWeight weight) const { return amounts_[static_cast<size_t>(weight)]; }
  void Add(TreeWeight weight, double amount) { amounts_[static_cast<size_t>(weight)] += amount; }
  void Add(const TreeAmounts& other) {
    for (size_t i = 0; i < amounts_.size(); ++i) amounts_[i] += other.amounts_[i];
  }

 private:
  std::array<double, 4> amounts_ = {};  // by TreeWeight
};

// Times are wall time between entry and end; a call that never returned lasts until the last record of its process.
struct CallNode {
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t parent = kNone;  // kNone: a thread; its label has no meaning
  uint32_t label = 0;
  uint64_t calls = 0;
  uint64_t raised = 0;
  uint64_t never_returned = 0;
  int64_t total_ns = 0;
  int64_t self_ns = 0;  // without the calls in it that are nodes
  bool timed = false;   // some of its calls have times (threads: some of the calls on them)
  // Of CallTreeOptions::weights: of its calls and those in them that are no nodes; after End, with its children.
  TreeAmounts self_amounts = {};
  TreeAmounts total_amounts = {};
};

// An amount without its fraction. Impossible ones, of damaged sizes or odd formulas, are the nearest that integers
// hold.
uint64_t WholeAmount(double amount);

struct CallTreeOptions {
  // The label of a call, from its entry: a number of the caller's choice. nullopt: the call is not a node, and the
  // calls in it belong to the call around it.
  std::function<std::optional<uint32_t>(const CallRecord&)> label;
  // The label of a call without a label and without a node around it; nullopt: it is not a node.
  std::function<std::optional<uint32_t>(const CallRecord&)> outside = nullptr;
  // Puts backward calls of level 4, or of level 2 beside modules, under their forward call, or under the node around
  // that. Their time counts for that node instead of the calls around them, and instead of the call by which the
  // forward call's thread waits for them.
  bool backward_at_forward = false;
  // The label of such a backward call if it has no label.
  std::function<std::optional<uint32_t>(const CallRecord&)> backward = nullptr;
  // Calls inside of calls with such a label are not nodes.
  std::function<bool(uint32_t)> closed = nullptr;
  // A call with the label of the call around it is not a node.
  bool fold_equal = false;
  std::vector<TreeWeight> weights = {};  // beside time
  // What a call of a config costs, for kFlops. Called once for each.
  std::function<ConfigCost(ConfigId)> cost = nullptr;
};

// Memory grows with the nodes and the open calls.
class CallTree {
 public:
  explicit CallTree(CallTreeOptions options) : options_(std::move(options)) {}

  // Reads the whole trace; returns the trace's error.
  absl::Status Read(Trace* trace);
  // Instead of Read: Add every record, with those of ShownFor, then End.
  void Add(const CallRecord& record);
  void End();

  // Every node is after its parent.
  const std::vector<CallNode>& nodes() const { return nodes_; }
  // The root nodes, by process and thread, of threads with calls.
  const std::map<std::pair<uint32_t, uint32_t>, uint32_t>& threads() const { return threads_; }
  // Each node's children, in the order of their first calls.
  std::vector<std::vector<uint32_t>> Children() const;
  bool has_times() const { return has_times_; }
  // How many backward calls were put under their forward calls.
  uint64_t moved() const { return moved_; }

 private:
  struct OpenCall {
    uint64_t call;
    uint32_t node;
    int64_t start_ns;
    int64_t inside_ns = 0;  // of the calls in it
    bool moved = false;     // to its forward call
    int64_t moved_ns = 0;   // of the moved calls in it, at any depth
  };
  struct Thread {
    uint32_t root = 0;
    std::vector<OpenCall> open;
    RecentCalls<uint32_t> recent;  // their nodes, or the nodes around them, if devices weigh
    CostNesting costs;             // if FLOPs weigh
  };

  Thread& ThreadOf(const CallRecord& record);
  uint32_t NodeOf(uint32_t parent, uint32_t label);
  // Returns the node that it is, or that is around it.
  uint32_t Enter(const CallRecord& record, Thread* thread);
  void AddAmount(uint32_t node, TreeWeight weight, double amount);
  bool Weighs(TreeWeight weight) const {
    return std::find(options_.weights.begin(), options_.weights.end(), weight) != options_.weights.end();
  }
  void AddWork(const CallRecord& record);
  void AddMemory(const CallRecord& record);
  const ConfigCost& CostOf(ConfigId config);
  void Close(Thread* thread, int64_t end_ns);

  const CallTreeOptions options_;
  const bool weighs_device_ = Weighs(TreeWeight::kDevice);
  const bool weighs_flops_ = Weighs(TreeWeight::kFlops);
  std::vector<CallNode> nodes_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> index_;  // by parent and label
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> threads_;
  std::map<std::pair<uint32_t, uint32_t>, Thread> open_;
  std::map<uint32_t, int64_t> last_ns_;  // by process
  absl::flat_hash_map<uint32_t, Thread*> of_root_;
  uint64_t moved_ = 0;
  NodeMakers<uint32_t> forward_nodes_;
  std::pair<uint32_t, uint32_t> last_key_;
  Thread* last_ = nullptr;
  bool has_times_ = false;
  std::vector<std::optional<ConfigCost>> costs_;  // by ConfigId
  const CostNesting::Count count_cost_ = [this](const CostNesting::Call& call, const CostSum&, const CostSum& cost) {
    AddAmount(call.place, TreeWeight::kFlops, cost.cost.flops.value_or(0));
  };
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_CALL_TREE_H_
