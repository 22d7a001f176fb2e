#include "serialize/reports/module_owners.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/model/value.h"

namespace torchtrace {
namespace {

constexpr std::string_view kScopeBegins = "_record_function_enter_new";
constexpr std::string_view kScopeEnds = "_record_function_exit._RecordFunction";
// Optimizers on lists of tensors, but not, say, `_fused_sdp_choice`.
constexpr std::array<std::string_view, 3> kLists = {"_foreach_", "_fused_ada", "_fused_sgd"};

// Modules that torch.compile makes of the program's code, and torch.fx of the program's modules.
constexpr std::string_view kGraphModules = "torch.fx.graph_module.GraphModule.";

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

ModuleOwners::What ModuleOwners::WhatOf(ConfigId config) const {
  const std::string_view identity = trace_.identity(config);
  const ConfigHead head = ReadConfigHead(identity);
  const std::string_view api = head.api;
  if (api.ends_with(kScopeEnds)) return What::kScopeEnd;
  if (api.ends_with(kScopeBegins)) {
    const Config whole = ReadableConfig(identity);
    const bool named = !whole.args.empty() && whole.args[0].tag == ValueTag::kString;
    return named && whole.args[0].text.starts_with(kOptimizerScope) ? What::kOptimizing : What::kScope;
  }
  if (head.level == kRecordLevel && api.starts_with(kOptimizerScope)) return What::kOptimizer;
  if (head.level != kRecordLevel && api.starts_with(kOptimizers)) return What::kOptimizer;
  if (RunsBackward(api)) return What::kEngine;
  const auto names_list = [api](std::string_view part) { return Contains(api, part); };
  return std::any_of(kLists.begin(), kLists.end(), names_list) ? What::kList : What::kOther;
}

const ModuleOwners::Kind& ModuleOwners::KindOf(ConfigId config) {
  if (config >= kinds_.size()) kinds_.resize(config + config / 2 + 16);
  Kind& kind = kinds_[config];
  if (kind.what != What::kUnknown) return kind;
  kind.module = places_.module(config);
  kind.what = kind.module == kNoPlace ? WhatOf(config) : What::kModule;
  const std::string_view identity = trace_.identity(config);
  if (kind.what == What::kModule && ReadConfigHead(identity).api.starts_with(kGraphModules) &&
      ModuleLabelOf(identity).model.empty()) {
    kind.what = What::kGraph;
  }
  return kind;
}

ModuleOwners::Thread& ModuleOwners::ThreadOf(const CallRecord& entry) {
  const std::pair<uint32_t, uint32_t> key(entry.process, entry.thread);
  if (last_ == nullptr || key != last_key_) {
    last_key_ = key;
    last_ = &threads_[key];
  }
  return *last_;
}

void ModuleOwners::FindNode(const CallRecord& entry, Thread* thread, Context* own) {
  own->backward = true;
  if (entry.facts.forward_thread != 0) {
    const Maker* const maker = makers_.Find(entry.process, entry.facts);
    thread->node = maker == nullptr ? std::nullopt : std::optional(*maker);
  }
  // A module called since the node was made is called by the node: a checkpointed forward pass that is made again. And
  // an optimizer's step may be a hook of the node.
  if (!thread->node.has_value() || (own->chosen && own->since > thread->node->call)) return;
  own->owner = thread->node->owner;
  own->chosen = false;
}

void ModuleOwners::EndScope(const CallRecord& entry, Thread* thread, Context* own) {
  // Within a call of level 1 is one of level 2, whose scope has ended with the former.
  const auto scope = std::find_if(thread->open.rbegin(), thread->open.rend(), [&entry](const Context& context) {
    return context.scope && context.level == entry.level;
  });
  if (scope == thread->open.rend()) return;
  *own = *scope;
  thread->open.erase(std::next(scope).base());
}

PlacedCall ModuleOwners::Of(const CallRecord& entry) {
  Thread& thread = ThreadOf(entry);
  std::vector<Context>& open = thread.open;
  const auto has_ended = [&entry](const Context& context) {
    return context.scope ? context.depth > entry.depth : context.depth >= entry.depth;
  };
  while (!open.empty() && has_ended(open.back())) open.pop_back();
  Context own = open.empty() ? Context() : open.back();
  const auto choose = [&](PlaceId owner, bool optimizer = false) {
    own.owner = owner;
    own.chosen = true;
    own.since = entry.call;
    own.optimizer = optimizer && !own.backward;
  };
  const Kind& kind = KindOf(entry.config);
  bool opens = kind.what != What::kOther;
  // Optimizers record no gradients of what they do.
  if (own.optimizer &&
      (kind.what == What::kEngine || entry.facts.forward_thread != 0 || thread.made.Made(entry, own.since))) {
    own.owner = kNoPlace;
    own.chosen = own.optimizer = false;
    opens = true;
  }
  if (IsBackward(entry.facts)) {
    sees_backward_ = true;
    FindNode(entry, &thread, &own);
    opens = true;
  }
  bool scope = false;
  switch (kind.what) {
    case What::kModule:
      choose(kind.module);
      break;
    case What::kGraph:
      if (own.owner == kNoPlace) choose(kind.module);
      break;
    case What::kOptimizer:
      choose(places_.optimizer(), true);
      break;
    case What::kList:
      if (!own.chosen && !own.backward) choose(places_.optimizer(), true);
      break;
    case What::kEngine:
      runs_backward_ = true;
      own.backward = true;
      break;
    case What::kOptimizing:
      // One that recording left before its end.
      std::erase_if(open, [&entry](const Context& context) {
        return context.scope && context.config == entry.config && context.depth == entry.depth;
      });
      choose(places_.optimizer(), true);
      scope = true;
      break;
    case What::kScope:
      scope = true;
      break;
    case What::kScopeEnd:
      EndScope(entry, &thread, &own);
      break;
    default:
      break;
  }
  makers_.Add(entry.process, entry.facts, {own.owner, entry.call});
  if (opens) {
    own.depth = entry.depth;
    own.scope = scope;
    own.level = entry.level;
    own.config = entry.config;
    open.push_back(own);
  }
  if (own.owner == kNoPlace) return {places_.nowhere(), own.backward};
  return {own.owner, own.backward};
}

}  // namespace torchtrace
