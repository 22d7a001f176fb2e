// What torch.utils.checkpoint ran again in backward passes, beside its forward run.

#ifndef TORCHTRACE_SERIALIZE_DIFF_RECOMPUTED_DIFF_H_
#define TORCHTRACE_SERIALIZE_DIFF_RECOMPUTED_DIFF_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "serialize/diff/config_diff.h"
#include "serialize/diff/one_trace.h"
#include "serialize/numbers/memory_effects.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// One call of level 1 or 2, or of a module, on a thread.
struct CheckpointStep {
  uint64_t call = kNoCall;
  uint64_t end = UINT64_MAX;     // number of the step after those within it; open: UINT64_MAX
  uint64_t parent = UINT64_MAX;  // the innermost call of level 1 around it, as a step
  ConfigId config = kLostId;
  ConfigId module = kLostId;  // the innermost module around it, or it itself
  StackId stack = kNoStack;
  uint32_t depth = 0;
  uint8_t level = 0;
  bool stopped = false;      // it raised what ends a recomputation early
  uint64_t storages = 0;     // a hash of its tensors' storages, in order; 0: not known
  uint64_t fingerprint = 0;  // of all that it returned and wrote; 0: not known
  double norm = 0;           // of the first of these
};

// A difference between the runs. Neither is empty for a call that changed, or whose numbers did.
struct CheckpointDifference {
  std::vector<std::string> fields;  // `missing`, `extra`, `shape`, `dtype`, `device`, `arguments`, `numbers`
  std::optional<CheckpointStep> forward, again;
};

struct Recomputation {
  uint32_t process = 0, thread = 0;
  ConfigId module = kLostId;                                 // that is run, or that calls what is run
  StackId stack = kNoStack;                                  // of its first call
  uint64_t forward_first = kNoCall, forward_last = kNoCall;  // calls
  uint64_t again_first = kNoCall, again_last = kNoCall;
  uint64_t calls = 0;                             // compared
  uint64_t kept = 0;                              // operators whose results were kept, not computed again
  uint64_t numbers = 0;                           // calls whose numbers were compared
  std::vector<CheckpointDifference> differences;  // the first ones
  uint64_t difference_count = 0;
};

// By what recomputed regions are known.
enum class CheckpointMark : uint8_t {
  kNone,
  kStacks,    // frames of checkpoint.py
  kGradMode,  // level 1: the backward pass turns gradients on
  kModules,   // level 3: a module runs outside of the one that contains it
};

// Takes the calls of a whole trace in order. Remembers the last 2^20 calls of each thread, where forward runs are
// looked for, and the differences.
class Recomputations {
 public:
  // Both must outlive it; the trace was counted.
  Recomputations(const Trace* trace, const DiffScope* scope);

  void Take(const CallRecord& record);
  void End();

  CheckpointMark mark() const { return mark_; }
  uint64_t found() const { return found_; }                      // recomputed regions
  uint64_t without_forward() const { return without_forward_; }  // of these, not compared
  uint64_t calls() const { return calls_; }                      // compared
  uint64_t numbers() const { return numbers_; }                  // calls whose numbers were compared
  uint64_t kept() const { return kept_; }
  uint64_t different() const { return different_count_; }
  // The first ones that differ.
  const std::vector<Recomputation>& differing() const { return differing_; }

 private:
  using Step = CheckpointStep;
  // What a config means here.
  enum Meaning : uint8_t {
    kUnread,
    kNothing,
    kCompared,
    kPassed,  // of checkpoint itself, or reads no element
    kGradOn,
    kGradOff,
    kBackward,
    kModule,
  };
  struct ConfigFacts {
    Meaning meaning = kUnread;
    bool left_out = false;  // by the scope
    uint32_t api = 0;
    MemoryEffects memory;
  };
  struct Region {
    uint64_t first = 0;           // step
    uint32_t depth = 0;           // of its outermost calls
    std::optional<uint64_t> end;  // step at which it ended, unless more of it follows
    StackId frame = kNoStack;     // of checkpoint.py
    ConfigId module = kLostId;    // kModules: of this module
  };
  struct OpenStep {
    uint64_t call = kNoCall;
    uint64_t step = UINT64_MAX;  // UINT64_MAX: it has none
    uint32_t depth = 0;
    Meaning meaning = kNothing;
    ConfigId config = kLostId;
    std::vector<uint64_t> storages = {};  // of its arguments
  };
  struct Used {
    uint64_t first = 0, end = 0;
    bool again = false;  // it is a recomputation itself
  };
  struct Thread {
    uint32_t process = 0, number = 0;
    bool of_autograd = false;
    std::deque<Step> steps;
    uint64_t dropped = 0;  // number of the first of `steps`
    std::vector<OpenStep> open;
    std::optional<Region> region;
    std::vector<Used> used;  // runs that were compared, the latest last

    uint64_t next() const { return dropped + steps.size(); }
    const Step& At(uint64_t step) const { return steps[step - dropped]; }
    Step& At(uint64_t step) { return steps[step - dropped]; }
  };
  // The frames of checkpoint.py in a stack.
  struct Frames {
    std::vector<StackId> forward;     // of regions' first runs, innermost first
    StackId again = kNoStack;         // of its recomputation
    StackId again_itself = kNoStack;  // the same, if it is the innermost frame
    bool early_stop = false;          // that may end before the region does
    bool keeps = false;               // with results of operators that were kept
  };
  struct Run {
    Thread* thread = nullptr;
    std::vector<uint64_t> steps;  // that are compared
    bool whole = false;           // its end is known
  };

  const ConfigFacts& FactsOf(ConfigId config);
  const Frames& FramesOf(StackId stack);
  Thread& ThreadOf(const CallRecord& record);
  void Enter(const CallRecord& record, Thread* thread);
  void MarkByStack(const CallRecord& record, Meaning meaning, Thread* thread);
  void MarkByGradMode(const CallRecord& record, Meaning meaning, Thread* thread);
  void MarkByModule(const CallRecord& record, Meaning meaning, Thread* thread);
  void Finish(Thread* thread, uint64_t end);
  std::optional<Run> FindForward(Thread* thread, const Region& region, const std::vector<uint64_t>& again,
                                 bool by_module);
  std::vector<uint64_t> ComparedSteps(const Thread& thread, uint64_t first, uint64_t end);
  double Likeness(const Thread& thread, uint64_t at, uint64_t end, const Thread& other,
                  const std::vector<uint64_t>& again);
  void Compare(const Thread& again_thread, const Run& again, const Run& forward, bool stopped, bool keeps,
               Recomputation* result);
  void TakeNumbers(const CallRecord& record, const OpenStep& ended, Step* step);

  const Trace& trace_;
  const DiffScope& scope_;
  CheckpointMark mark_ = CheckpointMark::kNone;
  std::vector<ConfigFacts> facts_;  // by config
  absl::flat_hash_map<std::string, uint32_t> apis_;
  absl::flat_hash_map<StackId, Frames> frames_;
  std::map<std::pair<uint32_t, uint32_t>, Thread> threads_;
  std::map<ConfigId, bool> ran_within_;  // modules that ran in another one
  uint64_t effort_ = uint64_t{1} << 33;  // calls that may still be looked at for forward runs
  uint64_t found_ = 0, without_forward_ = 0, calls_ = 0, numbers_ = 0, kept_ = 0, different_count_ = 0;
  std::vector<Recomputation> differing_;
};

// `torchtrace diff --recomputed`: the report of it. Without options.all, text has the first differences of each region,
// and JSON too.
//
// JSON: {"different", "trace", "known_by": "stacks", "gradient mode" or "modules", "recomputed", "differing",
// "without_forward", "calls", "calls_with_numbers", "kept", "regions": those that differ, [{"process", "thread",
// "module", "file", "line", "function", "forward": [first, last], "recomputed": [first, last], "differences": [{"in":
// ["shape"], "forward": {"call", "level", "module", "config", "file", "line", "function", "norm"} or null,
// "recomputed": the same}], "difference_count"}]}
//
// FailedPrecondition: nothing was recomputed, or the trace doesn't tell. Returns whether they differ, even if writing
// to `out` fails: check its state.
absl::StatusOr<bool> WriteRecomputedDiff(Trace* trace, const OneTraceDiffOptions& options, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_RECOMPUTED_DIFF_H_
