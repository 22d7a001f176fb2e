// The results of a program: the tensors that it leaves, as far as a trace shows them.

#ifndef TORCHTRACE_SERIALIZE_FLOW_OUTCOME_H_
#define TORCHTRACE_SERIALIZE_FLOW_OUTCOME_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "serialize/flow/flow.h"

namespace torchtrace {

// Receives the steps in order and chooses a result: the last unused value that the program still has, if that is
// known, or that it made from such values only to show it, as print(f(x)) does. A test such as `if x.norm() > 1`
// doesn't use x, nor the values that were computed only for the test.
class OutcomeFinder {
 public:
  // `argument_storages`, `result_storages`: 0 means none.
  void Add(const FlowStep& step, const std::vector<uint64_t>& argument_storages,
           const std::vector<uint64_t>& result_storages);

  // `kept`: whether the program still has the value at the end, or a call after the last step takes it.
  FlowOutcome Find(const std::function<bool(FlowValue)>& kept) const;

 private:
  struct Step {
    uint64_t call = 0;
    bool tells = false;
    bool writes_first = false;  // as x[0] = 1 does
    std::vector<FlowValue> arguments, results;
  };
  struct About {
    uint64_t storage = 0;
    bool made = false;     // by a step
    bool several = false;  // elements
  };
  enum Use : uint8_t { kNone = 0, kAsked = 1, kUsed = 2 };
  struct End {
    FlowValue value = kNoFlowValue;
    size_t step = 0;  // the last one that made it or wrote to it
    bool kept = false;
    Use use = kNone;
  };

  // Each value, and how it is used after the step that last wrote to it. `kept_alone`: only kept values, and values
  // used for them, count as uses.
  std::vector<End> Ends(const std::function<bool(FlowValue)>& kept, bool kept_alone) const;
  // The step's arguments, and the values from which they were made.
  absl::flat_hash_set<FlowValue> MadeOf(size_t step) const;
  // The value, and the values made with it.
  absl::flat_hash_set<FlowValue> MadeWith(FlowValue value) const;
  void NoteTensors(const Value& value, const std::vector<FlowValue>& values, bool made, size_t* position);
  FlowOutcome::Result ResultOf(const End& end, const std::function<bool(FlowValue)>& kept) const;

  std::vector<Step> steps_;
  absl::flat_hash_map<FlowValue, About> about_;       // all arguments and results of steps
  absl::flat_hash_set<FlowValue> shown_, passed_on_;  // passed to a step that shows contents, and to other steps
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FLOW_OUTCOME_H_
