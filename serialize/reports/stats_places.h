// Rows of stats by where calls were made instead of what was called: threads, processes, lines, modules, steps, tags.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_STATS_PLACES_H_
#define TORCHTRACE_SERIALIZE_REPORTS_STATS_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "serialize/reports/module_owners.h"
#include "serialize/reports/report_table.h"
#include "serialize/reports/reports.h"
#include "serialize/trace/step_times.h"

namespace torchtrace {

struct StatsPlace {
  std::vector<ReportCell> labels;  // for programs
  std::string text;                // for people
  std::optional<double> number;    // for sorting by name
  std::string model;               // the model of a module; empty: none
  // Of a step that ended, the longest of all processes, and by trace.
  std::optional<int64_t> wall_ns;
  std::map<size_t, int64_t> walls_ns;
  bool optimizer = false;  // it is the optimizers' row among modules
};

// Numbers the threads, processes, ranks, labels, lines, modules, steps or tag values of several traces. Places with the
// same labels are one; threads and processes of different traces always differ.
class StatsPlaces {
 public:
  // Both must outlive it. `short_files`: lines have their files as people see them, so that those of two checkouts of a
  // program are the same.
  StatsPlaces(const StatsGrouping& grouping, const std::vector<StatsTrace>& traces, bool short_files = false)
      : grouping_(grouping), traces_(traces), short_files_(short_files) {}

  static bool Has(StatsBy by) { return by >= StatsBy::kThread; }
  // Whether a process is in one place at a time: for SumOptions::intervals.
  static bool AreIntervals(StatsBy by) {
    return Has(by) && by != StatsBy::kThread && by != StatsBy::kLine && by != StatsBy::kModule;
  }

  // For SumOptions::place. Valid until the next call of Of.
  std::function<PlacedCall(const CallRecord&, PlaceId)> Of(size_t trace);

  // Call it after reading the last trace. InvalidArgument if no call of any trace has such a place.
  absl::Status Finish();

  // Valid after Finish.
  const std::vector<StatsPlace>& all() const { return places_; }
  // What the places can't show.
  std::vector<std::string> Notes() const;

  // Of the steps that ended, but for the first so many of each process: their rows' walls, and which took unusually
  // long for their process.
  struct StepWalls {
    std::map<PlaceId, int64_t> ns;
    struct Long {
      int64_t ns;
      double times;  // the process's median
    };
    std::map<PlaceId, Long> long_ones;
  };
  StepWalls WallsOfSteps(uint64_t skip_steps) const;

 private:
  // A trace knows the names of its threads when it was read.
  struct PlaceOfThread {
    PlaceId place;
    size_t trace;
    uint32_t process;
    uint32_t thread;
  };

  PlaceId Number(StatsPlace place);
  PlaceId Nowhere();
  PlaceId Optimizer();
  StatsPlace OfProcess(size_t trace, const CallRecord& call) const;
  void NameThread(const PlaceOfThread& thread);
  std::function<PlacedCall(const CallRecord&, PlaceId)> OfProcesses(size_t trace);
  std::function<PlacedCall(const CallRecord&, PlaceId)> OfLines(size_t trace);
  std::function<PlacedCall(const CallRecord&, PlaceId)> OfModules(size_t trace);
  std::function<PlacedCall(const CallRecord&, PlaceId)> OfSteps(size_t trace);
  std::function<PlacedCall(const CallRecord&, PlaceId)> OfTags(size_t trace);
  void AddWalls();

  const StatsGrouping& grouping_;
  const std::vector<StatsTrace>& traces_;
  const bool short_files_;
  std::vector<StatsPlace> places_;
  absl::flat_hash_map<std::string, PlaceId> numbers_;  // by labels
  std::vector<PlaceOfThread> threads_;
  std::optional<PlaceId> nowhere_;
  std::optional<PlaceId> optimizer_;
  std::set<std::string> other_tags_;
  struct StepsOfTrace {
    size_t trace;
    StepTimes times;
    std::map<std::pair<uint32_t, uint64_t>, PlaceId> places;              // by process and number
    absl::flat_hash_map<std::pair<uint32_t, std::string>, size_t> named;  // by process and name

    std::optional<int64_t> WallOf(uint32_t process, uint64_t number) const;
  };
  PlaceId NumberStep(const ProgramStep& step, size_t of_its_name);
  std::vector<std::unique_ptr<StepsOfTrace>> steps_;
  // By name, and which of that name it is in its process.
  absl::flat_hash_map<std::pair<std::string, size_t>, PlaceId> step_places_;
  std::map<size_t, std::shared_ptr<const ModuleOwners>> owners_;  // by trace
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_STATS_PLACES_H_
