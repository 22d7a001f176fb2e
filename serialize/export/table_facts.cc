#include "serialize/export/table_facts.h"

#include <string>

#include "absl/strings/numbers.h"
#include "serialize/trace/call_tree.h"

namespace torchtrace {

int64_t StepCells::Of(const CallRecord& entry) {
  const StepPlace place = steps_.Add(entry);
  if (place.kind != StepPlace::kInStep) return kNullCell;
  const ProgramStep& step = steps_.Of(entry.process).at(place.number);
  int64_t named = 0;
  return absl::SimpleAtoi(step.name, &named) ? named : static_cast<int64_t>(place.number);
}

int64_t CostCell(const std::optional<double>& amount) {
  return amount.has_value() ? static_cast<int64_t>(WholeAmount(*amount)) : kNullCell;
}

}  // namespace torchtrace
