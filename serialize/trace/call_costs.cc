#include "serialize/trace/call_costs.h"

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
  start.counted_operators = nest->counted_operators;
  return start;
}

void CostNesting::End(const Open& open, bool raised, const Start& start, std::optional<double> CallCost::* amount,
                      Nest* nest, CostSum* of_level, CostSum* of_trace) {
  const std::optional<double>& one = open.cost.cost.*amount;
  if (!one.has_value()) return;
  const bool is_operator = IsOperator(open.call.level);
  --nest->levels[open.call.level].open;
  --(is_operator ? nest->operators : nest->others).open;
  if (raised) return;
  const double all = *one * static_cast<double>(open.call.calls);
  if (start.outermost_of_level) of_level->cost.*amount = all;
  if (!start.outermost || (!is_operator && nest->counted_operators != start.counted_operators)) return;
  of_trace->cost.*amount = all;
  nest->counted_operators += is_operator ? 1 : 0;
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
  }
  if (cost.cost.bytes.has_value()) open.bytes = Begin(call.level, true, &bytes_);
}

void CostNesting::CloseLast(bool raised, const Count& count) {
  const Open open = open_.back();
  open_.pop_back();
  CostSum of_level, of_trace;
  End(open, raised, open.flops, &CallCost::flops, &flops_, &of_level, &of_trace);
  End(open, raised, open.bytes, &CallCost::bytes, &bytes_, &of_level, &of_trace);
  if (open.cost.lacks_formula && !raised) CountLacking(open, &of_level, &of_trace);
  count(open.call, of_level, of_trace);
}

}  // namespace torchtrace
