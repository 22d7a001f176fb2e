#include "serialize/trace/call_tree.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "serialize/model/device_work.h"
#include "serialize/trace/launched_work.h"
#include "serialize/trace/live_memory.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

bool IsTimed(const CallRecord& record) { return record.time_ns != 0 || record.duration_ns != 0; }

}  // namespace

uint64_t WholeAmount(double amount) {
  constexpr double kMost = 9'223'372'036'854'774'784;  // below 2^63
  return amount > 0 ? static_cast<uint64_t>(std::min(amount, kMost)) : 0;
}

const Choices<TreeWeight>& TreeWeights() {
  static const Choices<TreeWeight> weights("cannot weigh by", {{"time", TreeWeight::kTime},
                                                               {"device", TreeWeight::kDevice},
                                                               {"memory", TreeWeight::kMemory},
                                                               {"flops", TreeWeight::kFlops}});
  return weights;
}

absl::Status CheckWeight(const Trace& trace, TreeWeight weight, std::string_view name) {
  std::string lacking;
  if (weight == TreeWeight::kDevice && !HasDeviceTimes(trace)) {
    const std::string why = WhyNotSeen(trace, "device times");
    lacking =
        absl::StrCat(" has no device times: ", why.empty() ? "record them with torchtrace run --device-times" : why);
  } else if (weight == TreeWeight::kMemory && !HasMemory(trace)) {
    lacking = " has no memory: record it with torchtrace run --memory";
  }
  return lacking.empty() ? absl::OkStatus() : absl::FailedPreconditionError(absl::StrCat(std::string(name), lacking));
}

RecordsShown ShownFor(const std::vector<TreeWeight>& weights) {
  const auto has = [&weights](TreeWeight weight) {
    return std::find(weights.begin(), weights.end(), weight) != weights.end();
  };
  return {.later = has(TreeWeight::kDevice), .memory = has(TreeWeight::kMemory)};
}

absl::Status CallTree::Read(Trace* trace) {
  const RecordsShown shown = ShownFor(options_.weights);
  const LaterNotesShown later(trace, shown.later);
  const MemoryShown memory(trace, shown.memory);
  const absl::Status read = trace->Read([this](const CallRecord& record) {
    Add(record);
    return absl::OkStatus();
  });
  if (read.ok()) End();
  return read;
}

void CallTree::AddAmount(uint32_t node, TreeWeight weight, double amount) {
  if (nodes_[node].parent != CallNode::kNone) nodes_[node].self_amounts.Add(weight, amount);
}

void CallTree::AddWork(const CallRecord& record) {
  const auto thread = open_.find({record.process, record.thread});
  if (thread == open_.end() || record.device_work.empty()) return;
  const uint32_t* const node = thread->second.recent.Find(record.call);
  if (node == nullptr) return;
  std::vector<DeviceWork> work;
  AddAmount(*node, TreeWeight::kDevice, static_cast<double>(DeviceNs(record.device_work, &work)));
}

void CallTree::AddMemory(const CallRecord& record) {
  const auto thread = open_.find({record.process, record.thread});
  if (record.memory.freed || thread == open_.end() || thread->second.open.empty()) return;
  AddAmount(thread->second.open.back().node, TreeWeight::kMemory, static_cast<double>(CountedBytes(record.memory)));
}

const ConfigCost& CallTree::CostOf(ConfigId config) {
  if (config >= costs_.size()) costs_.resize(config + config / 2 + size_t{16});
  if (!costs_[config].has_value()) costs_[config] = options_.cost(config);
  return *costs_[config];
}

void CallTree::Add(const CallRecord& record) {
  if (record.kind == CallRecord::kLater) return AddWork(record);
  if (record.kind == CallRecord::kMemory) return AddMemory(record);
  Thread& thread = ThreadOf(record);
  last_ns_[record.process] = record.time_ns;
  has_times_ = has_times_ || IsTimed(record);
  nodes_[thread.root].timed = nodes_[thread.root].timed || IsTimed(record);
  if (record.kind != CallRecord::kEnter) {
    thread.costs.Close(record.depth, record.kind == CallRecord::kRaise, count_cost_);
    // Ends of calls inside may be lost; the call itself may not be a node.
    while (!thread.open.empty() && thread.open.back().call > record.call) Close(&thread, record.time_ns);
    if (thread.open.empty() || thread.open.back().call != record.call) return;
    nodes_[thread.open.back().node].raised += record.kind == CallRecord::kRaise;
    return Close(&thread, record.time_ns);
  }
  const uint32_t node = Enter(record, &thread);
  if (weighs_device_) thread.recent.Add(record.call, node);
  if (weighs_flops_ && record.config != kLostId) {
    thread.costs.Close(record.depth, /*raised=*/false, count_cost_);
    thread.costs.Enter({record.depth, record.config, node, record.level, record.count}, CostOf(record.config));
  }
}

uint32_t CallTree::Enter(const CallRecord& record, Thread* thread) {
  const bool is_outermost = thread->open.empty();
  uint32_t parent = is_outermost ? thread->root : thread->open.back().node;
  if (options_.closed && !is_outermost && options_.closed(nodes_[parent].label)) return parent;
  const uint32_t* const forward =
      options_.backward_at_forward ? forward_nodes_.Find(record.process, record.facts) : nullptr;
  std::optional<uint32_t> label = options_.label(record);
  const bool labelled = label.has_value();
  // A call inside another moved one, of the same forward call, is a part of it.
  const bool is_part =
      !is_outermost && thread->open.back().moved && forward != nullptr && nodes_[parent].parent == *forward;
  if (!labelled && forward != nullptr && !is_part && options_.backward) label = options_.backward(record);
  if (!label.has_value() && is_outermost && options_.outside) label = options_.outside(record);
  if (!label.has_value()) {
    if (options_.backward_at_forward && !is_outermost) forward_nodes_.Add(record.process, record.facts, parent);
    return parent;
  }
  if (options_.fold_equal && !is_outermost && nodes_[parent].label == *label) return parent;
  const bool moved = forward != nullptr && (labelled || !is_part);
  if (moved) parent = *forward;
  moved_ += moved ? record.count : 0;
  const uint32_t node = NodeOf(parent, *label);
  nodes_[node].calls += record.count;
  nodes_[node].timed = nodes_[node].timed || IsTimed(record);
  if (options_.backward_at_forward) forward_nodes_.Add(record.process, record.facts, node);
  thread->open.push_back({.call = record.call, .node = node, .start_ns = record.time_ns, .moved = moved});
  return node;
}

void CallTree::End() {
  for (auto& [key, thread] : open_) {
    while (!thread.open.empty()) {
      ++nodes_[thread.open.back().node].never_returned;
      Close(&thread, std::max(last_ns_[key.first], thread.open.back().start_ns));
    }
    thread.costs.Close(0, /*raised=*/false, count_cost_);
  }
  for (size_t i = nodes_.size(); i-- > 0;) {
    CallNode& node = nodes_[i];
    node.total_amounts.Add(node.self_amounts);
    if (node.parent != CallNode::kNone) nodes_[node.parent].total_amounts.Add(node.total_amounts);
  }
}

std::vector<std::vector<uint32_t>> CallTree::Children() const {
  std::vector<std::vector<uint32_t>> children(nodes_.size());
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].parent != CallNode::kNone) children[nodes_[i].parent].push_back(i);
  }
  return children;
}

CallTree::Thread& CallTree::ThreadOf(const CallRecord& record) {
  const std::pair<uint32_t, uint32_t> key(record.process, record.thread);
  if (last_ != nullptr && key == last_key_) return *last_;
  const auto [at, fresh] = open_.try_emplace(key);
  if (fresh) {
    at->second.root = static_cast<uint32_t>(nodes_.size());
    nodes_.emplace_back();
    threads_[key] = at->second.root;
    of_root_[at->second.root] = &at->second;
  }
  last_key_ = key;
  last_ = &at->second;
  return *last_;
}

uint32_t CallTree::NodeOf(uint32_t parent, uint32_t label) {
  const auto [at, fresh] = index_.try_emplace({parent, label}, static_cast<uint32_t>(nodes_.size()));
  if (fresh) {
    CallNode& node = nodes_.emplace_back();
    node.parent = parent;
    node.label = label;
  }
  return at->second;
}

void CallTree::Close(Thread* thread, int64_t end_ns) {
  const OpenCall call = thread->open.back();
  thread->open.pop_back();
  const int64_t duration_ns = std::max<int64_t>(end_ns - call.start_ns, 0);
  CallNode& node = nodes_[call.node];
  node.self_ns += duration_ns - call.inside_ns;
  node.timed = node.timed || end_ns != 0;
  // Without moved calls.
  const int64_t own_ns = duration_ns - call.moved_ns;
  node.total_ns += own_ns;
  if (call.moved) {
    uint32_t root = call.node;
    while (nodes_[root].parent != CallNode::kNone) {
      root = nodes_[root].parent;
      nodes_[root].total_ns += own_ns;
    }
    if (Thread* const waiting = of_root_.at(root); waiting != thread && !waiting->open.empty()) {
      OpenCall& wait = waiting->open.back();
      const int64_t most_ns = std::max<int64_t>(end_ns - wait.start_ns - wait.inside_ns, 0);
      const int64_t ns = std::min(own_ns, most_ns);
      wait.inside_ns += ns;
      wait.moved_ns += ns;
    }
  }
  const int64_t moved_ns = call.moved ? duration_ns : call.moved_ns;
  if (thread->open.empty()) {
    nodes_[thread->root].total_ns += duration_ns - moved_ns;
  } else {
    thread->open.back().inside_ns += duration_ns;
    thread->open.back().moved_ns += moved_ns;
  }
}

}  // namespace torchtrace
