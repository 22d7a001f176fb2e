// Finds what made an autograd node: PyTorch numbers the nodes that a thread makes, in their order.

#ifndef TORCHTRACE_SERIALIZE_TRACE_NODE_MAKERS_H_
#define TORCHTRACE_SERIALIZE_TRACE_NODE_MAKERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "serialize/model/levels.h"
#include "serialize/model/record_facts.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Whether a call is of a backward pass.
inline bool IsBackward(const RecordFacts& facts) { return facts.scope == kBackwardScope || facts.forward_thread != 0; }

// Whether a call made one, or may have: at level 4 all are numbered that PyTorch makes while it records gradients.
inline bool MakesNode(const RecordFacts& facts) { return facts.forward_thread == 0 && facts.sequence >= 0; }

// Whether nodes are made within a call: an operator at level 4 has the number of the next one.
class NodesMade {
 public:
  // At the entry of a call on the thread, within the open call `around`.
  bool Made(const CallRecord& entry, uint64_t around) {
    if (!MakesNode(entry.facts)) return false;
    if (entry.level != kRecordLevel) return true;
    if (std::exchange(around_, around) != around) first_ = entry.facts.sequence;
    return entry.facts.sequence > first_;
  }

 private:
  uint64_t around_ = kNoCall;
  int64_t first_ = 0;
};

// Stores a T for each call that made nodes. A node's maker is the first call with its number or a later one: level 2
// notes the last of several nodes that a call made. Memory is bounded: keeps at least the last `most` calls of a
// thread.
template <typename T>
class NodeMakers {
 public:
  explicit NodeMakers(size_t most = 1 << 20) : most_(most) {}

  // Call it at each call's entry, in the order of the trace. Ignores calls that make no node. Of calls with the same
  // number, the last one counts.
  void Add(uint32_t process, const RecordFacts& facts, T maker) {
    if (!MakesNode(facts)) return;
    Thread& thread = threads_[{process, facts.thread}];
    Nodes& nodes = thread.nodes;
    while (!nodes.empty() && nodes.back().first >= facts.sequence) nodes.pop_back();
    if (nodes.size() >= 2 * most_) {
      const auto kept = nodes.begin() + static_cast<ptrdiff_t>(most_);
      thread.forgotten = std::prev(kept)->first;
      nodes.erase(nodes.begin(), kept);
    }
    nodes.emplace_back(facts.sequence, std::move(maker));
  }

  // Null if the call doesn't run a node, or its maker is unknown. Valid until the next Add.
  const T* Find(uint32_t process, const RecordFacts& facts) const {
    if (facts.forward_thread == 0 || facts.sequence < 0) return nullptr;
    const auto thread = threads_.find({process, facts.forward_thread});
    if (thread == threads_.end() || facts.sequence <= thread->second.forgotten) return nullptr;
    const Nodes& nodes = thread->second.nodes;
    const auto at = std::lower_bound(nodes.begin(), nodes.end(), facts.sequence,
                                     [](const auto& node, int64_t sequence) { return node.first < sequence; });
    return at == nodes.end() ? nullptr : &at->second;
  }

 private:
  using Nodes = std::vector<std::pair<int64_t, T>>;  // ascending
  struct Thread {
    Nodes nodes;
    int64_t forgotten = -1;  // nodes up to this number
  };

  size_t most_;
  std::map<std::pair<uint32_t, uint64_t>, Thread> threads_;  // by process and RecordFunction's number
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_NODE_MAKERS_H_
