#include "serialize/diff/rank_diff.h"

#include <algorithm>

#include "serialize/model/config.h"
#include "serialize/model/levels.h"

namespace torchtrace {

uint32_t RankCalls::TraitsOf(ConfigId config) {
  constexpr uint32_t kUnread = UINT32_MAX;
  if (config >= of_config_.size()) of_config_.resize(config + config / 2 + 16, kUnread);
  uint32_t& known = of_config_[config];
  if (known != kUnread) return known;
  known = 0;
  const std::string_view identity = trace_.identity(config);
  const ConfigHead head = ReadConfigHead(identity);
  if (OperationOf(head.api, head.level).empty() || !scope_.Accepts(head)) return 0;
  CollectiveTraits traits = CollectiveTraitsOf(ReadableConfig(identity));
  if (traits.kind == CollectiveTraits::kNone) return 0;
  known = static_cast<uint32_t>(traits_.size());
  traits_.push_back(std::move(traits));
  return known;
}

RankCall& RankCalls::At(const Place& place) {
  Progress& progress = (place.of_operators ? operators_ : functions_)[place.process];
  return (place.of_peers ? progress.peers : progress.groups)[place.group][place.number];
}

void RankCalls::Take(const CallRecord& record) {
  if (record.thread == kNoThread) return;
  Thread& thread = threads_[{record.process, record.thread}];
  std::vector<CallRecord>& open = thread.open;
  if (record.kind == CallRecord::kEnter) {
    // Calls at this depth and deeper have ended; their ends are missing.
    while (!open.empty() && open.back().depth >= record.depth) open.pop_back();
    if (const uint32_t traits = record.config == kLostId ? 0 : TraitsOf(record.config); traits != 0) {
      Enter(record, traits, &thread);
    }
    open.push_back(record);
    return;
  }
  while (!open.empty() && open.back().call > record.call) open.pop_back();
  if (!open.empty() && open.back().call == record.call) open.pop_back();
  if (thread.op.call == record.call) {
    // A function goes on to wait for it, or a backward pass.
    const auto around =
        std::find_if(open.begin(), open.end(), [](const CallRecord& call) { return call.level <= kFunctionLevel; });
    if (around == open.end() || record.kind == CallRecord::kRaise) {
      End(record, &thread.op);
    } else {
      for (const Place& place : thread.op.places) thread.waits.emplace_back(around->call, place);
    }
    thread.op = {};
  }
  while (!thread.waits.empty() && thread.waits.back().first >= record.call) {
    RankCall& call = At(thread.waits.back().second);
    call.open = false;
    call.raised = call.raised || record.kind == CallRecord::kRaise;
    thread.waits.pop_back();
  }
  if (thread.function.call == record.call) {
    End(record, &thread.function);
    thread.function = {};
  }
}

void RankCalls::Enter(const CallRecord& record, uint32_t number, Thread* thread) {
  const CollectiveTraits& traits = traits_[number];
  for (Outermost* const outermost : {&thread->function, &thread->op}) {
    // Its end is missing.
    if (outermost->call != kNoCall && record.depth <= outermost->depth) {
      End(record, outermost);
      *outermost = {};
    }
  }
  Outermost* const own = traits.is_operator ? &thread->op : &thread->function;
  // What an operation calls to do its work is a part of it.
  if (own->call != kNoCall) return;
  const Outermost& function = thread->function;
  *own = {record.call, record.depth, record.config, record.stack, {}};
  const Place place = {traits.is_operator, traits.kind != CollectiveTraits::kCollective, record.process, traits.group,
                       0};
  Progress& progress = (place.of_operators ? operators_ : functions_)[record.process];
  Sequence& sequence = (place.of_peers ? progress.peers : progress.groups)[traits.group];
  RankCall& call = sequence.emplace_back();
  const bool within = traits.is_operator && function.call != kNoCall;
  call.call = within ? function.call : record.call;
  call.traits = number;
  call.config = within ? function.config : record.config;
  call.stack = record.stack != kNoStack || !within ? record.stack : function.stack;
  call.time_ns = record.time_ns;
  call.open = true;
  own->places.push_back(place);
  own->places.back().number = sequence.size() - 1;
  if (within) thread->function.places.push_back(own->places.back());
}

void RankCalls::End(const CallRecord& record, Outermost* outermost) {
  for (const Place& place : outermost->places) {
    RankCall& call = At(place);
    call.open = false;
    call.raised = call.raised || record.kind == CallRecord::kRaise;
  }
}

std::vector<CallRecord> RankCalls::OpenOf(uint32_t process) const {
  for (auto at = threads_.lower_bound({process, 0}); at != threads_.end() && at->first.first == process; ++at) {
    if (!at->second.open.empty()) return at->second.open;
  }
  return {};
}

}  // namespace torchtrace
