// A part of a trace as a program: its calls in order, and where each tensor argument comes from. Needs a trace with
// --ids and --outputs; without them no tensor argument has a known origin.

#ifndef TORCHTRACE_SERIALIZE_FLOW_FLOW_H_
#define TORCHTRACE_SERIALIZE_FLOW_FLOW_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "serialize/model/config.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// A tensor of the program, numbered from 0 in order of appearance. Writing to it doesn't change its number: a call in
// place, or with out=, returns one of its arguments.
using FlowValue = uint32_t;
inline constexpr FlowValue kNoFlowValue = UINT32_MAX;

// A tensor that a step takes and no earlier step returned.
struct FlowSource {
  enum Kind : uint8_t {
    kInput,    // from outside the program
    kStorage,  // a 1-d tensor over an outside storage that no single tensor argument covers
    kView,     // a view of `base`, an earlier value: base.as_strided(shape, strides, base's offset + `shift`)
  };
  Kind kind = kInput;
  FlowValue value = kNoFlowValue;
  Value tensor;       // its description
  TensorFacet facet;  // gradient and subclass
  TensorNote note;    // range and contents before the step, if recorded
  // `note` has the contents of all its memory, from the first element to the last, because later arguments lie in the
  // gaps between its elements. Those of a kStorage come from the tensors in it, with 0 elsewhere.
  bool memory = false;
  FlowValue base = kNoFlowValue;
  int64_t shift = 0;         // in elements of `tensor`
  bool same = false;         // kView: it has the shape, strides, offset and dtype of `base`
  bool other_dtype = false;  // kView: its dtype differs from that of `base`, so as_strided alone isn't enough
  // kInput, kStorage: it appeared after the first step began, and no step made it. If another call of the trace made
  // it, `maker` is that call.
  bool unseen = false;
  uint64_t maker = kNoCall;
  ConfigId maker_config = kLostId;
};

// A call of level 3 that contains a step.
struct FlowModule {
  uint64_t call = 0;
  ConfigId config = kLostId;
};

// A selected call, the outermost that can be called again. All views are valid during the visit.
struct FlowStep {
  uint64_t number = 0;  // from 0
  bool last = false;    // except for marks
  uint64_t call = 0;    // in the trace
  uint32_t thread = 0;
  ConfigId config_id = kLostId;
  VariantId variant = kLostId;
  const Config* config = nullptr;
  const std::vector<TensorFacet>* facets = nullptr;
  const std::vector<TensorNote>* notes = nullptr;
  bool gradients = true;  // grad mode at its beginning, by the level-1 calls of torch._C._set_grad_enabled
  CallOutcome outcome = CallOutcome::kReturned;
  std::string_view exception;

  std::vector<FlowSource> sources;   // tensors that must exist before the step, in this order
  std::vector<FlowValue> arguments;  // by position among the call's tensors (tensor_notes.h)
  bool result_known = false;
  std::vector<Value> result;
  std::vector<FlowValue> results;  // by position among the result's tensors
  const std::vector<TensorNote>* result_notes = nullptr;
  std::vector<FlowValue> released;  // no later step takes them or their views
  std::vector<FlowModule> modules;  // outermost first
};

// What a program returns.
struct FlowOutcome {
  struct Result {
    FlowValue value = kNoFlowValue;
    uint64_t call = 0;   // the last call that made it or wrote to it
    bool whole = false;  // it is everything that the call returned
  };
  std::vector<Result> results;   // the best first; the others are fallbacks if that can't be made
  bool asked = false;            // the first one was used, but only to choose the program's path
  std::vector<uint64_t> others;  // calls that made other kept results that no call used
};

struct FlowSummary {
  uint64_t steps = 0;
  uint32_t process = 0;          // index into the trace's
  uint64_t other_processes = 0;  // selected calls left out: a program covers only the first process that has any
  uint64_t never_returned = 0;   // selected calls left out
  uint64_t inside = 0;           // selected calls within steps
  uint64_t opened = 0;           // selected calls that are replaced by the selected calls in them
  uint64_t counted = 0;          // calls of the trace that aren't listed: `run --max-size`
  uint64_t without_id = 0;       // tensor arguments
  uint64_t without_result = 0;   // steps that returned without a recorded result
  FlowOutcome outcome;           // only with FlowOptions::surroundings
};

// Whether the call returned neither tensors nor objects: it only read data, which can only affect the program's path.
bool OnlyTells(const FlowStep& step);

// Whether calls of the API only mark a part of the program for a profiler.
bool IsMark(std::string_view api);

struct FlowOptions {
  // Whether a call of the API can be made again; asked once per API. Of a call that can't, or whose arguments were not
  // recorded in full, the selected calls in it become steps; if it contains none, it becomes a step itself.
  std::function<bool(std::string_view api)> may_call = [](std::string_view) { return true; };
  // Called after each step: whether all tensors were lost. Arguments of later steps are then sources again.
  std::function<bool()> lost = [] { return false; };
  // Whether to look at unselected calls too, and at the tensors that exist before and at the end. Sets
  // FlowSource::unseen and FlowSummary::outcome.
  bool surroundings = false;
};

// Reads the trace twice. Calls `visit` for each step, in the order in which they ended, which is also the order within
// a thread. At levels 2 and 4 only operators are steps, not scopes, backward nodes and kernels; at level 1,
// torch._C._set_grad_enabled is no step. Memory grows with open calls and the tensors that are used later, plus a few
// bytes per other tensor.
absl::StatusOr<FlowSummary> ReadFlow(Trace* trace, const CallSelection& selection,
                                     const std::function<absl::Status(const FlowStep&)>& visit,
                                     const FlowOptions& options = {});

// A step for programs in other languages:
//   {"call": 7, "thread": 0, "level": 1, "api": ..., "args": [...], "kwargs": {...},
//    "sources": [...], "gradients": false, "mark": true, "tells": true, "result": [...], "result_notes": [...],
//    "raised": ..., "released": [...], "modules": [{"call": 3, "api": ..., "path": ..., "model": ...}]}
// Each tensor in args, kwargs, result and sources has its number as "id"; a source has "kind", and "base", "shift",
// "same", "other_dtype", "memory", "unseen", "maker": {"call": 2, "api": ...}, "min", "max". Unless `contents` is null,
// it gets the contents of the sources and then of the results, which have their number of bytes as "contents".
nlohmann::ordered_json FlowStepToJson(const Trace& trace, const FlowStep& step,
                                      std::vector<std::string_view>* contents);

// {"steps": 3, ..., "outcome": {"results": [[value, call, whole], ...], "asked": false, "others": [2, ...]}}
nlohmann::ordered_json FlowSummaryToJson(const FlowSummary& summary);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FLOW_FLOW_H_
