// The calls of a trace as a tree of what called what, folded: calls with one label under one parent are one node.

#ifndef TORCHTRACE_SERIALIZE_TRACE_CALL_TREE_H_
#define TORCHTRACE_SERIALIZE_TRACE_CALL_TREE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "serialize/trace/forward_calls.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Memory goes with the nodes and the open calls. Times are wall time between entering and leaving; a call that never
// returned lasted up to the last record of its process.

struct CallNode {
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t parent = kNone;  // kNone: a thread, whose label says nothing
  uint32_t label = 0;
  uint64_t calls = 0;
  uint64_t raised = 0;
  uint64_t never_returned = 0;
  int64_t total_ns = 0;
  int64_t self_ns = 0;  // without the calls in it that are nodes
  bool timed = false;   // some of its calls have times; of a thread, of those in it
};

struct CallTreeOptions {
  // What a call is called: a number of the caller's choice, asked at its entry. None: it is no node, and what it calls
  // belongs to the call around it.
  std::function<std::optional<uint32_t>(const CallRecord&)> label;
  // What it is called where it has no label and no node is around it; none: it is no node.
  std::function<std::optional<uint32_t>(const CallRecord&)> outside = nullptr;
  // Backward calls of level 4 hang under the forward call to which they belong, or the node around that, and their time
  // is that node's and not that of the calls around them.
  bool backward_at_forward = false;
  // What one is called that has no label.
  std::function<std::optional<uint32_t>(const CallRecord&)> backward = nullptr;
  // What calls of this label call is no node.
  std::optional<uint32_t> closed = {};
  // A call whose label is that of the call around it is no node.
  bool fold_equal = false;
};

class CallTree {
 public:
  explicit CallTree(CallTreeOptions options) : options_(std::move(options)) {}

  // Reads all of a trace; an error is the trace's.
  absl::Status Read(Trace* trace);
  // Or record by record, and then End.
  void Add(const CallRecord& record);
  void End();

  // A node stands behind its parent.
  const std::vector<CallNode>& nodes() const { return nodes_; }
  // By process and thread, those that have a call: the nodes without a parent.
  const std::map<std::pair<uint32_t, uint32_t>, uint32_t>& threads() const { return threads_; }
  // Each node's children, in the order of their first calls.
  std::vector<std::vector<uint32_t>> Children() const;
  bool has_times() const { return has_times_; }

 private:
  struct OpenCall {
    uint64_t call;
    uint32_t node;
    int64_t start_ns;
    int64_t inside_ns = 0;  // of the calls in it
    bool moved = false;     // it hangs under its forward call
    int64_t moved_ns = 0;   // of the calls in it, at any depth
  };
  struct Thread {
    uint32_t root = 0;
    std::vector<OpenCall> open;
  };

  Thread& ThreadOf(const CallRecord& record);
  uint32_t NodeOf(uint32_t parent, uint32_t label);
  void Enter(const CallRecord& record, Thread* thread);
  void Close(Thread* thread, int64_t end_ns);

  const CallTreeOptions options_;
  std::vector<CallNode> nodes_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> index_;  // by parent and label
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> threads_;
  std::map<std::pair<uint32_t, uint32_t>, Thread> open_;
  std::map<uint32_t, int64_t> last_ns_;  // by process
  ForwardCalls<uint32_t> forward_nodes_;
  std::pair<uint32_t, uint32_t> last_key_;
  Thread* last_ = nullptr;
  bool has_times_ = false;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_CALL_TREE_H_
