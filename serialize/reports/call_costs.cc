#include "serialize/reports/call_costs.h"

namespace torchtrace {

CostNesting::Start CostNesting::Begin(uint8_t level, bool known, Nest* nest) {
  Group& of_level = nest->levels[level];
  Group& of_kind = IsOperator(level) ? nest->operators : nest->others;
  Start start;
  start.outermost_of_level = of_level.open == 0;
  // An operator inside another call is what that call does.
  start.outermost = of_kind.open == 0 && nest->operators.open == 0;
  for (Group* const group : {&of_level, &of_kind}) {
    group->open += known ? 1 : 0;
    ++group->seen;
  }
  start.seen_of_level = of_level.seen;
  start.seen_operators = nest->operators.seen;
  start.seen_others = nest->others.seen;
  start.in_whole = nest->whole > 0;
  start.counted_of_level = nest->counted_of_level[level];
  start.counted = nest->counted;
  start.counted_operators = nest->counted_operators;
  return start;
}

void CostNesting::End(uint8_t level, Nest* nest) {
  --nest->levels[level].open;
  --(IsOperator(level) ? nest->operators : nest->others).open;
}

void CostNesting::CountFlops(const Open& open, CostSum* of_level, CostSum* of_trace) {
  const double all = *open.cost.cost.flops * static_cast<double>(open.call.calls);
  uint64_t& counted_of_level = flops_.counted_of_level[open.call.level];
  if (open.flops.in_whole) return;
  if (open.cost.whole || counted_of_level == open.flops.counted_of_level) {
    of_level->cost.flops = all;
    ++counted_of_level;
  }
  if (open.cost.whole || flops_.counted == open.flops.counted) {
    of_trace->cost.flops = all;
    ++flops_.counted;
  }
}

void CostNesting::CountBytes(const Open& open, CostSum* of_level, CostSum* of_trace) {
  const double all = *open.cost.cost.bytes * static_cast<double>(open.call.calls);
  const bool is_operator = IsOperator(open.call.level);
  if (open.bytes.outermost_of_level) of_level->cost.bytes = all;
  if (!open.bytes.outermost || (!is_operator && bytes_.counted_operators != open.bytes.counted_operators)) return;
  of_trace->cost.bytes = all;
  bytes_.counted_operators += is_operator ? 1 : 0;
}

void CostNesting::CountLacking(const Open& open, CostSum* of_level, CostSum* of_trace) const {
  const Group& level = flops_.levels[open.call.level];
  if (level.seen == open.flops.seen_of_level && level.open == 0) of_level->lacking = open.call.calls;
  const bool is_operator = IsOperator(open.call.level);
  const bool innermost = flops_.operators.seen == open.flops.seen_operators &&
                         (is_operator || flops_.others.seen == open.flops.seen_others);
  const bool outside = flops_.operators.open == 0 && (is_operator || flops_.others.open == 0);
  if (innermost && outside) of_trace->lacking = open.call.calls;
}

void CostNesting::Enter(const Call& call, const ConfigCost& cost) {
  if (cost.none()) return;
  Open& open = open_.emplace_back(Open{call, cost, {}, {}});
  if (cost.cost.flops.has_value() || cost.lacks_formula) {
    open.flops = Begin(call.level, cost.cost.flops.has_value(), &flops_);
    flops_.whole += cost.whole ? 1 : 0;
  }
  if (cost.cost.bytes.has_value()) open.bytes = Begin(call.level, true, &bytes_);
}

void CostNesting::CloseLast(bool raised, const Count& count) {
  const Open open = open_.back();
  open_.pop_back();
  CostSum of_level, of_trace;
  if (open.cost.cost.flops.has_value()) {
    End(open.call.level, &flops_);
    flops_.whole -= open.cost.whole ? 1 : 0;
    if (!raised) CountFlops(open, &of_level, &of_trace);
  }
  if (open.cost.cost.bytes.has_value()) {
    End(open.call.level, &bytes_);
    if (!raised) CountBytes(open, &of_level, &of_trace);
  }
  if (open.cost.lacks_formula && !raised) CountLacking(open, &of_level, &of_trace);
  count(open.call, of_level, of_trace);
}

}  // namespace torchtrace
