// Which calls' FLOPs and bytes count. A call inside another one does a part of the same work, and several levels record
// the same work, so that adding up all calls would count it several times.

#ifndef TORCHTRACE_SERIALIZE_TRACE_CALL_COSTS_H_
#define TORCHTRACE_SERIALIZE_TRACE_CALL_COSTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "serialize/model/levels.h"

namespace torchtrace {

// The cost of one call. nullopt: there is no formula, or one of its sizes is unknown.
struct CallCost {
  std::optional<double> flops = {};  // of matrix products, as torch.utils.flop_counter counts them
  std::optional<double> bytes = {};  // of tensors, read and written once each
};

// What each call of a config costs.
struct ConfigCost {
  CallCost cost;
  bool lacks_formula = false;  // it costs FLOPs, but how many is not known
  bool whole = false;          // its FLOPs are also those of all calls inside it

  bool none() const { return !cost.flops.has_value() && !cost.bytes.has_value() && !lacks_formula; }
};

// Costs of work that counts once.
struct CostSum {
  CallCost cost;         // nullopt: of no call
  uint64_t lacking = 0;  // calls of unknown FLOPs: innermost ones, not inside a call whose FLOPs are known

  void Add(const CostSum& other) {
    AddTo(other.cost.flops, &cost.flops);
    AddTo(other.cost.bytes, &cost.bytes);
    lacking += other.lacking;
  }

 private:
  static void AddTo(const std::optional<double>& amount, std::optional<double>* sum) {
    if (amount.has_value()) *sum = sum->value_or(0) + *amount;
  }
};

// Says of each call of a thread that ends whether its cost counts. Calls that raised cost nothing.
//
// Of FLOPs, the innermost calls' count, in each level and in all: they are what ran. A call around them may be a part
// of it, or see tensors of other sizes (torch.func.vmap's show one example).
//
// Of bytes, the outermost calls' count: what is inside may be only a part of their work. Among those of all levels,
// operators do (levels 2 and 4), on each thread; other calls count where no operator inside them does.
class CostNesting {
 public:
  struct Call {
    uint32_t depth = 0;
    uint32_t config = 0;
    uint32_t place = 0;
    uint8_t level = 0;
    uint64_t calls = 1;  // as many equal ones
    uint32_t repetition = 0;
  };
  // Gets each call that counts, for its level and for the trace. Some sums may be empty.
  using Count = std::function<void(const Call&, const CostSum& of_level, const CostSum& of_trace)>;

  // Calls of this depth and deeper must be closed.
  void Enter(const Call& call, const ConfigCost& cost);
  // The calls of this depth and deeper have ended. `raised`: the one of this depth did by an exception.
  void Close(uint32_t depth, bool raised, const Count& count) {
    while (!open_.empty() && open_.back().call.depth >= depth)
      CloseLast(raised && open_.back().call.depth == depth, count);
  }

 private:
  // Calls of one level, or all operators, or all others.
  struct Group {
    uint32_t open = 0;  // calls of known cost under way
    uint64_t seen = 0;  // calls of known or unknown cost so far
  };
  // For FLOPs or bytes.
  struct Nest {
    std::array<Group, UINT8_MAX + 1> levels;
    Group operators, others;
    std::array<uint64_t, UINT8_MAX + 1> counted_of_level = {};  // calls so far
    uint64_t counted = 0, counted_operators = 0;
    uint32_t whole = 0;  // calls under way
  };
  // How a call lay in a nest when it began.
  struct Start {
    bool outermost_of_level = false;
    bool outermost = false;
    bool in_whole = false;
    uint64_t seen_of_level = 0, seen_operators = 0, seen_others = 0;
    uint64_t counted_of_level = 0, counted = 0, counted_operators = 0;
  };
  struct Open {
    Call call;
    ConfigCost cost;
    Start flops, bytes;
  };

  static bool IsOperator(uint8_t level) { return level == kDispatchLevel || level == kRecordLevel; }
  static Start Begin(uint8_t level, bool known, Nest* nest);
  static void End(uint8_t level, Nest* nest);
  void CountFlops(const Open& open, CostSum* of_level, CostSum* of_trace);
  void CountBytes(const Open& open, CostSum* of_level, CostSum* of_trace);
  void CountLacking(const Open& open, CostSum* of_level, CostSum* of_trace) const;
  void CloseLast(bool raised, const Count& count);

  Nest flops_, bytes_;
  std::vector<Open> open_;  // only calls of known or unknown cost
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_CALL_COSTS_H_
