// Rows of stats that are no config's: where calls were made, and when.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_STATS_PLACES_H_
#define TORCHTRACE_SERIALIZE_REPORTS_STATS_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "serialize/reports/report_table.h"
#include "serialize/reports/reports.h"

namespace torchtrace {

struct StatsPlace {
  std::vector<ReportCell> labels;  // what programs read of it
  std::string text;                // the same for people
  std::optional<double> number;    // for sorting by name
  std::string model;               // that a module is a part of; empty: none
};

// Numbers the threads, processes, ranks, labels, lines, modules or values of a tag of several traces. Those that have
// the same labels are one; threads and processes are of one trace each.
class StatsPlaces {
 public:
  // Both outlive it.
  StatsPlaces(const StatsGrouping& grouping, const std::vector<StatsTrace>& traces)
      : grouping_(grouping), traces_(traces) {}

  static bool Has(StatsBy by) { return by >= StatsBy::kThread; }

  // For SumOptions::place of a trace that was counted. Valid until it is asked for another trace's.
  std::function<PlaceId(const CallRecord&, PlaceId)> Of(size_t trace);

  // When all traces were counted. InvalidArgument where no call of any trace has what is asked for.
  absl::Status Finish();

  const std::vector<StatsPlace>& all() const { return places_; }

 private:
  PlaceId Number(StatsPlace place);
  PlaceId Nowhere();
  StatsPlace OfProcess(size_t trace, const CallRecord& call) const;
  std::function<PlaceId(const CallRecord&, PlaceId)> OfProcesses(size_t trace);
  std::function<PlaceId(const CallRecord&, PlaceId)> OfLines(size_t trace);
  std::function<PlaceId(const CallRecord&, PlaceId)> OfModules(size_t trace);
  std::function<PlaceId(const CallRecord&, PlaceId)> OfTags(size_t trace);

  const StatsGrouping& grouping_;
  const std::vector<StatsTrace>& traces_;
  std::vector<StatsPlace> places_;
  absl::flat_hash_map<std::string, PlaceId> numbers_;  // by labels
  std::optional<PlaceId> nowhere_;
  std::set<std::string> other_tags_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_STATS_PLACES_H_
