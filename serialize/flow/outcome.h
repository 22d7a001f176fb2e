// What a program is for: the tensors that it leaves, as far as a trace can tell.

#ifndef TORCHTRACE_SERIALIZE_FLOW_OUTCOME_H_
#define TORCHTRACE_SERIALIZE_FLOW_OUTCOME_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "serialize/flow/flow.h"

namespace torchtrace {

// Is told of the steps, in order, and chooses. A result is the last value that nobody used, of those that the program
// still has where that is known, or that it made of those and only showed, as print(f(x)) does. Whoever asked a tensor
// for a number, as `if x.norm() > 1` does, didn't use it, nor what it was computed of for that alone.
class OutcomeFinder {
 public:
  // `storages`: of the step's arguments and results, 0 where there is none.
  void Add(const FlowStep& step, const std::vector<uint64_t>& argument_storages,
           const std::vector<uint64_t>& result_storages);

  // `kept`: whether the program has the value in the end, or a call behind the last step takes it.
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

  // Each value, with how it is used behind the step that wrote to it last. `kept_alone`: what isn't kept, and isn't
  // used for what is, doesn't use anything.
  std::vector<End> Ends(const std::function<bool(FlowValue)>& kept, bool kept_alone) const;
  // What the step takes, and what that was made of.
  absl::flat_hash_set<FlowValue> MadeOf(size_t step) const;
  // The value, and what it went into.
  absl::flat_hash_set<FlowValue> MadeWith(FlowValue value) const;
  void NoteTensors(const Value& value, const std::vector<FlowValue>& values, bool made, size_t* position);
  FlowOutcome::Result ResultOf(const End& end, const std::function<bool(FlowValue)>& kept) const;

  std::vector<Step> steps_;
  absl::flat_hash_map<FlowValue, About> about_;       // all that steps take or make
  absl::flat_hash_set<FlowValue> shown_, passed_on_;  // to a step that tells what stands in one, and to others
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FLOW_OUTCOME_H_
