// Which module of a model each call of a trace works for: the one that it is in; for a call of a backward pass, the one
// whose forward call made the autograd node that runs. What an optimizer does belongs to no module; the closure that
// its step calls is not the optimizer's.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_MODULE_OWNERS_H_
#define TORCHTRACE_SERIALIZE_REPORTS_MODULE_OWNERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "serialize/reports/reports.h"
#include "serialize/trace/node_makers.h"
#include "serialize/trace/trace.h"
#include "serialize/trace/training_calls.h"

namespace torchtrace {

// Follows a trace in its order, and numbers owners by the caller's functions.
class ModuleOwners {
 public:
  struct Places {
    std::function<PlaceId(ConfigId)> module;  // of a module's call; kNoPlace: it is no module's
    std::function<PlaceId()> optimizer;
    std::function<PlaceId()> nowhere;
  };

  ModuleOwners(const Trace& trace, Places places) : trace_(trace), places_(std::move(places)) {}

  // Call it at every call's entry.
  PlacedCall Of(const CallRecord& entry);
  // Whether the trace has backward passes, but not what is in them.
  bool lacks_backward() const { return runs_backward_ && !sees_backward_; }

 private:
  enum class What : uint8_t {
    kUnknown,
    kOther,
    kModule,
    kGraph,       // a module of no model: it belongs to the one around
    kOptimizer,   // the calls inside are an optimizer's
    kList,        // an operator on lists of tensors: an optimizer's unless it is in a module
    kEngine,      // the calls inside are of a backward pass
    kScope,       // begins a scope of the program, which ends with a kScopeEnd
    kOptimizing,  // begins one of an optimizer's
    kScopeEnd
  };
  struct Kind {
    What what = What::kUnknown;
    PlaceId module = kNoPlace;
  };
  // What the calls inside of an open call belong to, or those of an open scope.
  struct Context {
    PlaceId owner = kNoPlace;  // kNoPlace: none
    bool backward = false;
    bool chosen = false;  // by a module or an optimizer, since its call `since`
    uint64_t since = 0;
    bool optimizer = false;  // that one is an optimizer, not in a backward pass
    uint32_t depth = 0;
    bool scope = false;
    uint8_t level = 0;          // of a scope
    ConfigId config = kLostId;  // the same
  };
  struct Maker {
    PlaceId owner;
    uint64_t call;
  };
  struct Thread {
    std::vector<Context> open;
    std::optional<Maker> node;  // that made the node of the last backward call
    NodesMade made;
  };

  const Kind& KindOf(ConfigId config);
  What WhatOf(ConfigId config) const;
  Thread& ThreadOf(const CallRecord& entry);
  // Sets the owner of a call of a backward pass.
  void FindNode(const CallRecord& entry, Thread* thread, Context* own);
  void EndScope(const CallRecord& entry, Thread* thread, Context* own);

  const Trace& trace_;
  const Places places_;
  std::vector<Kind> kinds_;  // by ConfigId
  NodeMakers<Maker> makers_;
  std::map<std::pair<uint32_t, uint32_t>, Thread> threads_;
  std::pair<uint32_t, uint32_t> last_key_;
  Thread* last_ = nullptr;
  bool runs_backward_ = false, sees_backward_ = false;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_MODULE_OWNERS_H_
