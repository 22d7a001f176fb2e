// Finds the forward call of a backward call of level 4: the last call before it that created the autograd node that it
// runs, by PyTorch's sequence numbers.

#ifndef TORCHTRACE_SERIALIZE_TRACE_FORWARD_CALLS_H_
#define TORCHTRACE_SERIALIZE_TRACE_FORWARD_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "serialize/model/record_facts.h"

namespace torchtrace {

// Stores a T for each forward call. Memory is bounded: keeps the last `most` calls, and at most as many before them.
// The graphs of older ones usually never run backward.
template <typename T>
class ForwardCalls {
 public:
  explicit ForwardCalls(size_t most = 1 << 20) : most_(most) {}

  // Call it at each call's entry. Ignores calls that don't create a node.
  void Add(const RecordFacts& facts, T call) {
    if (facts.forward_thread != 0 || facts.sequence < 0) return;
    if (last_.size() >= most_) {
      before_ = std::move(last_);
      last_.clear();
    }
    last_.insert_or_assign({facts.thread, facts.sequence}, std::move(call));
  }

  // Null if the call is not a backward call, or its forward call is unknown. Valid until the next Add.
  const T* Find(const RecordFacts& facts) const {
    if (facts.forward_thread == 0 || facts.sequence < 0) return nullptr;
    const std::pair<uint64_t, int64_t> key(facts.forward_thread, facts.sequence);
    for (const Calls* const calls : {&last_, &before_}) {
      if (const auto at = calls->find(key); at != calls->end()) return &at->second;
    }
    return nullptr;
  }

 private:
  using Calls = absl::flat_hash_map<std::pair<uint64_t, int64_t>, T>;  // by thread and sequence number

  size_t most_;
  Calls last_;
  Calls before_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_FORWARD_CALLS_H_
