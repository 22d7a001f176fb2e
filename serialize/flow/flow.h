// A part of a trace as a program: its calls in order, and where each tensor that they take comes from. Of a trace with
// --ids and --outputs; without them each tensor that a call takes is one that nobody made.

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
#include "serialize/flow/target.h"
#include "serialize/model/config.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// A tensor of the program, dense from 0 in the order in which they are told. It stays the same one when it is written
// to: a call in place, or with out=, returns a value that it took.
using FlowValue = uint32_t;
inline constexpr FlowValue kNoFlowValue = UINT32_MAX;

// A tensor that a step takes and no step before returned.
struct FlowSource {
  enum Kind : uint8_t {
    kInput,    // from outside of the program
    kStorage,  // one dimension over a storage from outside, of which no tensor that the program takes has all
    kView,     // of the storage of `base`, which is known: base.as_strided(shape, strides, base's own offset + `shift`)
  };
  Kind kind = kInput;
  FlowValue value = kNoFlowValue;
  Value tensor;       // its description
  TensorFacet facet;  // gradient and subclass
  TensorNote note;    // range and contents before the step, where they were recorded
  // The contents are those of all its memory, from its first element to its last: tensors that are taken later lie in
  // gaps between its elements. Of a kStorage the contents are as far as tensors in it tell them, 0 elsewhere.
  bool memory = false;
  FlowValue base = kNoFlowValue;
  int64_t shift = 0;         // in elements of `tensor`
  bool same = false;         // kView: with the shape, strides, offset and dtype of `base`
  bool other_dtype = false;  // kView: than that of `base`; as_strided alone doesn't do
  // kInput, kStorage: it wasn't there before tracing began, nor before the first step, and no step made it. Where
  // another call of the trace did, that is `maker`.
  bool unseen = false;
  uint64_t maker = kNoCall;
  ConfigId maker_config = kLostId;
};

// A call of level 3 that a step is in.
struct FlowModule {
  uint64_t call = 0;
  ConfigId config = kLostId;
};

// A call of the selection, an outermost one of those that can be called. All views are valid during the visit.
struct FlowStep {
  uint64_t number = 0;  // from 0
  bool last = false;    // but for marks
  uint64_t call = 0;    // in the trace
  uint32_t thread = 0;
  ConfigId config_id = kLostId;
  VariantId variant = kLostId;
  const Config* config = nullptr;
  const std::vector<TensorFacet>* facets = nullptr;
  const std::vector<TensorNote>* notes = nullptr;
  bool gradients = true;  // the mode that it began in, as far as torch._C._set_grad_enabled of level 1 told
  CallOutcome outcome = CallOutcome::kReturned;
  std::string_view exception;
  CallAutocast autocast;

  std::vector<FlowSource> sources;   // what has to be there before, in this order
  std::vector<FlowValue> arguments;  // by position among the call's tensors (tensor_notes.h)
  bool result_known = false;
  std::vector<Value> result;
  std::vector<FlowValue> results;  // by position among the result's tensors
  const std::vector<TensorNote>* result_notes = nullptr;
  std::vector<FlowValue> released;  // that no later step takes, nor a view of theirs
  std::vector<FlowModule> modules;  // outermost first
};

// What a program returns.
struct FlowOutcome {
  struct Result {
    FlowValue value = kNoFlowValue;
    uint64_t call = 0;   // that made it, or wrote to it last
    bool whole = false;  // all that the call returned
  };
  std::vector<Result> results;   // the best first: one is meant, the others are for who can't make it
  bool asked = false;            // the first is one that only told the program its way
  std::vector<uint64_t> others;  // calls that made what nobody used either, and the program has
};

struct FlowSummary {
  uint64_t steps = 0;
  uint32_t process = 0;          // index into the trace's
  uint64_t other_processes = 0;  // selected calls left out: a program is of one process, the first that has any
  uint64_t never_returned = 0;   // selected calls left out
  uint64_t inside = 0;           // selected calls within steps
  uint64_t opened = 0;           // selected calls in place of which the selected ones in them are steps
  uint64_t without_id = 0;       // tensors that were taken
  uint64_t without_result = 0;   // steps that returned, nobody knows what
  FlowOutcome outcome;           // where FlowOptions::surroundings asks for it
};

// Whether the call returned neither tensors nor objects: it has only read, and what it told went into the program's
// path.
bool OnlyTells(const FlowStep& step);

// Whether calls of that name mark a part of the program for a profiler, and do nothing else.
bool IsMark(std::string_view api);

struct FlowOptions {
  // Whether a call of this config can be made again. Of one that can't be the selected calls in it are steps; it is
  // one itself when there are none.
  std::function<bool(const Config&)> can_call = CanCall;
  // Asked after each step: whether all tensors that there were are lost. What later steps take are sources anew.
  std::function<bool()> lost = [] { return false; };
  // Whether other calls are looked at, and what was there before and in the end: FlowSource::unseen, FlowOutcome.
  bool surroundings = false;
};

// Reads the trace twice. Calls `visit` for each step, in the order in which they ended; two that one thread made come
// in that order anyway. Of levels 2 and 4 operators alone are steps: no scopes, backward nodes and kernels; of level 1
// no torch._C._set_grad_enabled. Memory goes with open calls and the tensors that are still to be used, and some bytes
// for each other.
absl::StatusOr<FlowSummary> ReadFlow(Trace* trace, const CallSelection& selection,
                                     const std::function<absl::Status(const FlowStep&)>& visit,
                                     const FlowOptions& options = {});

// For programs in other languages:
//   {"call": 7, "thread": 0, "level": 1, "api": ..., "args": [...], "kwargs": {...},
//    "target": {"kind": "method", "name": "view"}, as target.h has it, "sources": [...],
//    "gradients": false, "autocast": ["cpu", "bfloat16"], "mark": true, "result": [...], "raised": ...,
//    "released": [...], "modules": [{"call": 3, "api": ..., "path": ..., "model": ...}]}
// Each tensor among args, kwargs, result and sources has its number as "id"; a source has "kind", and "base", "shift",
// "same", "other_dtype", "memory", "unseen", "maker": {"call": 2, "api": ...}, "min", "max" and, where `contents` has
// it, "contents" in base 64.
nlohmann::ordered_json FlowStepToJson(const Trace& trace, const FlowStep& step, bool contents);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FLOW_FLOW_H_
