// What tables show of calls beside their records: sizes and costs by the rules of other rooms, and their modules.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_TABLE_FACTS_H_
#define TORCHTRACE_SERIALIZE_EXPORT_TABLE_FACTS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "serialize/export/table_writer.h"
#include "serialize/model/config.h"
#include "serialize/trace/call_costs.h"
#include "serialize/trace/step_times.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Of a config; kNullCell: there is none of that name.
struct SizeCells {
  int64_t m = kNullCell;
  int64_t n = kNullCell;
  int64_t k = kNullCell;
  CallCost cost;  // of each call, with the calls in it
};

class TableFacts {
 public:
  virtual ~TableFacts() = default;
  virtual SizeCells SizesOf(const Config& config) = 0;
  // Before the entries of a trace, which has been counted.
  virtual void Begin(const Trace& trace) = 0;
  // The module that a call works for, as in `stats --by module`; empty: none. Call it at each entry of the trace, in
  // order. Valid until the next Begin.
  virtual std::string_view ModuleOf(const CallRecord& entry) = 0;
};

// The step that each call of a trace is in: its name if that is an integer, else its number.
class StepCells {
 public:
  // The trace must outlive it.
  explicit StepCells(const Trace* trace) : steps_(trace) {}

  // At each entry, in order; kNullCell: it is in none.
  int64_t Of(const CallRecord& entry);

 private:
  StepTimes steps_;
};

// A cost as a cell; kNullCell: unknown.
int64_t CostCell(const std::optional<double>& amount);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_TABLE_FACTS_H_
