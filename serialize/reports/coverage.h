// The report of `torchtrace apis coverage`: which APIs or operators of a list were
// called in some traces, how often and with how many configs, and which never were.
// Counts each trace once; memory goes with the configs.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_COVERAGE_H_
#define TORCHTRACE_SERIALIZE_REPORTS_COVERAGE_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/apis/api_list.h"
#include "serialize/base/glob.h"
#include "serialize/reports/stats_report.h"

namespace torchtrace {

struct CoverageOptions {
  StatsFormat format = StatsFormat::kText;
  GlobFilter filter;        // over names, of the list and of what was called beside it
  std::vector<int> levels;  // whose calls count; empty: all
  // Which rows are shown; the totals are of all.
  bool called = true;
  bool never = true;
  bool outside = false;  // called and not in the list
  // An operator's name without overload is that overload, and not all of them.
  bool exact_overloads = false;
};

struct CoverageTotals {
  size_t listed = 0;
  size_t called = 0;

  // Whether at least so many percent of the list were called.
  bool Reaches(double percent) const {
    return 100.0 * static_cast<double>(called) >= percent * static_cast<double>(listed);
  }
};

// A call is of the entry that has its name, or has it among its aliases; of a property also
// when a read or write of it was called (`NAME.__get__`). Operators go by any spelling
// (`aten::add.Tensor`, `aten.add.Tensor`, `torch.ops.aten.add.Tensor`). A config that several
// levels saw counts once, and so do its calls. `list_name` is how the report calls the list.
// InvalidArgument when the filter leaves nothing of it, Aborted when `out` fails.
absl::StatusOr<CoverageTotals> WriteCoverage(const std::vector<StatsTrace>& traces, const ApiList& list,
                                             const std::string& list_name, const CoverageOptions& options,
                                             std::ostream* out);

// The levels that a trace was recorded at; where its metadata doesn't tell, those of its
// calls. It was counted or read before.
std::vector<int> RecordedLevels(const Trace& trace);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_COVERAGE_H_
