// Which forward call a backward call of level 4 belongs to: the last before it that made the autograd node which it
// goes through, as PyTorch numbers nodes.

#ifndef TORCHTRACE_SERIALIZE_TRACE_FORWARD_CALLS_H_
#define TORCHTRACE_SERIALIZE_TRACE_FORWARD_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "serialize/model/record_facts.h"

namespace torchtrace {

// Keeps of each forward call what its reader wants to know again, a T. Memory is bounded: the last `most` calls are
// known, and at most as many before them. The graphs of older ones were as a rule never gone through.
template <typename T>
class ForwardCalls {
 public:
  explicit ForwardCalls(size_t most = 1 << 20) : most_(most) {}

  // At a call's entry. What is no forward call of a node is passed over.
  void Add(const RecordFacts& facts, T call) {
    if (facts.forward_thread != 0 || facts.sequence < 0) return;
    if (last_.size() >= most_) {
      before_ = std::move(last_);
      last_.clear();
    }
    last_.insert_or_assign({facts.thread, facts.sequence}, std::move(call));
  }

  // Null where the call is no backward one, or its forward call isn't known. Valid until the next Add.
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
