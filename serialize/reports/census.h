// The census of `torchtrace stats --census`: which operators (level 2) ran inside an
// API call (level 1) and which did not, so that level 1 did not see them. One
// reading; memory goes with the APIs and threads.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_CENSUS_H_
#define TORCHTRACE_SERIALIZE_REPORTS_CENSUS_H_

#include <cstdint>
#include <ostream>
#include <vector>

#include "absl/status/status.h"
#include "serialize/base/glob.h"
#include "serialize/reports/stats_report.h"

namespace torchtrace {

struct CensusOptions {
  StatsFormat format = StatsFormat::kText;
  uint64_t top = 0;   // so many operators, those most often outside first; 0: all
  GlobFilter filter;  // over names of operators; totals are of what it accepts
};

// A call is inside when any call around it on its thread is of level 1, however many are
// in between; one whose outer calls are lost counts as outside. docs/STATS.md lists the
// keys of JSON and the columns of CSV. FailedPrecondition for a trace that was not
// recorded at levels 1 and 2, Aborted when `out` fails.
absl::Status WriteCensus(const std::vector<StatsTrace>& traces, const CensusOptions& options, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_CENSUS_H_
