// The reports on a trace: stats, census, coverage, dump, tree, info.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_REPORTS_H_
#define TORCHTRACE_SERIALIZE_REPORTS_REPORTS_H_

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/apis/apis.h"
#include "serialize/base/choices.h"
#include "serialize/base/matching.h"
#include "serialize/base/saturating.h"
#include "serialize/configs/dedup.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/device_work.h"
#include "serialize/model/memory_event.h"
#include "serialize/reports/durations.h"
#include "serialize/reports/number_extremes.h"
#include "serialize/reports/report_table.h"
#include "serialize/trace/call_costs.h"
#include "serialize/trace/call_tree.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// The first call of a total. Calls of a later trace come after those of the earlier ones.
struct FirstCall {
  size_t trace = SIZE_MAX;  // none
  CallOrder order = {};

  friend auto operator<=>(const FirstCall&, const FirstCall&) = default;
};

// A device's memory of calls. If rows are configs, with what the calls in them allocate and free; a call within another
// one of its row adds nothing. If rows are places, each byte counts for the place of the innermost call.
struct MemoryTotal {
  uint64_t allocated = 0;
  uint64_t freed = 0;
  // The most that a call with the calls in it had allocated above its start; with SumOptions::intervals, that a process
  // had above the row's start.
  uint64_t peak = 0;
  uint64_t held = 0;  // allocated and never freed

  void Add(const MemoryTotal& other) {
    allocated += other.allocated;
    freed += other.freed;
    peak = std::max(peak, other.peak);
    held += other.held;
  }
};

// The same for each device.
struct MemoryTotals {
  std::vector<std::pair<MemoryDevice, MemoryTotal>> devices;  // as they come

  MemoryTotal& Of(const MemoryDevice& device) {
    for (auto& [known, total] : devices) {
      if (known == device) return total;
    }
    return devices.emplace_back(device, MemoryTotal()).second;
  }
  void Add(const MemoryTotals& other) {
    for (const auto& [device, total] : other.devices) Of(device).Add(total);
  }
  // Sums over the devices, and the largest of their peaks.
  MemoryTotal All() const {
    MemoryTotal all;
    for (const auto& [device, total] : devices) all.Add(total);
    return all;
  }
};

// Calls and times, summed per config or per place: all groupings of `torchtrace stats` are made from these.
struct CallTotal {
  // What every call changes, together.
  uint64_t calls = 0;
  int64_t time_ns = 0;       // between entry and end, of the calls that are not inside another call of their row
  int64_t self_time_ns = 0;  // without the recorded calls inside
  int64_t backward_ns = 0;   // of this self time, that of calls of a backward pass: with SumOptions::place, by module
  bool timed = false;        // some of them have times
  // Some are of processes that recorded these, if SumOptions asks for them.
  bool has_device = false, has_memory = false;

  uint64_t raised = 0;
  FirstCall first = {};
  Durations durations = {};     // of the calls that time_ns counts, if SumOptions asks for them
  NumberExtremes numbers = {};  // if SumOptions asks for them
  MemoryTotals memory = {};     // the same
  // If SumOptions asks for it: how long devices ran what the row's calls launched. It counts as memory does. Then that
  // of configs alone, of calls that are in no other one of their level.
  int64_t device_ns = 0;
  int64_t outer_device_ns = 0;
  // If it asks for costs: of work that counts once in its level, or in the trace (call_costs.h).
  CostSum cost_of_level = {}, cost = {};

  void Add(const CallTotal& other) {
    durations.Add(other.durations);
    numbers.Add(other.numbers);
    memory.Add(other.memory);
    AddSaturating(other.device_ns, &device_ns);
    AddSaturating(other.outer_device_ns, &outer_device_ns);
    calls += other.calls;
    raised += other.raised;
    cost_of_level.Add(other.cost_of_level);
    cost.Add(other.cost);
    AddSaturating(other.time_ns, &time_ns);
    AddSaturating(other.self_time_ns, &self_time_ns);
    AddSaturating(other.backward_ns, &backward_ns);
    first = std::min(first, other.first);
    timed = timed || other.timed;
    has_device = has_device || other.has_device;
    has_memory = has_memory || other.has_memory;
  }
};

// Where calls were made: their thread, line, module or tag. Dense numbers that SumOptions::place assigns.
using PlaceId = uint32_t;
inline constexpr PlaceId kNoPlace = UINT32_MAX;
struct PlacedCall {
  PlacedCall(PlaceId place_of_call, bool of_backward = false)  // NOLINT(google-explicit-constructor): mostly a place
      : place(place_of_call), backward(of_backward) {}

  PlaceId place;
  bool backward;  // the call is of a backward pass
};
struct PlaceTotal {
  CallTotal total;
  absl::flat_hash_set<ConfigId> configs;  // seen
};

struct TraceTotals {
  std::vector<CallTotal> configs;  // by ConfigId
  std::vector<PlaceTotal> places;  // by PlaceId, with SumOptions::place
  bool has_times = false;          // false: the trace has no times, all are 0
  uint64_t untimed = 0;            // calls of threads without times
  int64_t device_ns = 0;           // of all counted calls together
};

inline constexpr uint32_t kNoRow = UINT32_MAX;

struct SumOptions {
  // The row of a config's calls; kNoRow: they don't count. Called once per config. Rows matter for times: a call
  // inside another one of its row adds nothing to the row's time.
  std::function<uint32_t(ConfigId)> row;
  // The place of a call, from its entry; never kNoPlace. `around`: the place of the call around it, or kNoPlace. With
  // this function, places are the rows. Called for every call.
  std::function<PlacedCall(const CallRecord& entry, PlaceId around)> place = nullptr;
  // Whether `place` needs the entries in the order of the whole trace, and not only of each thread.
  bool in_order = false;
  // What the config's calls cost, for CallTotal::cost. Called once per config that has a row.
  std::function<ConfigCost(ConfigId)> cost = nullptr;
  // Only selected calls count. `row` checks names and levels.
  const CallSelection* selection = nullptr;
  bool durations = false;
  bool numbers = false;
  bool memory = false;
  bool device = false;  // the times of devices
  // Places follow one another in each process, as steps do, and memory peaks are theirs: a place lasts from its call to
  // the next one of another place.
  bool intervals = false;
  // With `device`: gets what calls launched, with the record that says so, if a call that counts did or is around it.
  std::function<void(const CallRecord& later, const DeviceWork& work)> work = nullptr;
  size_t trace = 0;  // of FirstCall
};
absl::StatusOr<TraceTotals> SumCalls(Trace* trace, const SumOptions& options);

// Only the numbers of calls of each config, from Trace::Count: several times faster. The first call is in the order of
// the definitions. Takes `row` and `trace`.
absl::StatusOr<TraceTotals> CountConfigs(Trace* trace, const SumOptions& options);

// The formats of stats, census and coverage (report_table.h).
enum class StatsFormat : uint8_t { kText, kJson, kCsv, kMarkdown };
// People get as much as fits on a screen by default, programs everything.
inline bool IsForPeople(StatsFormat format) { return format == StatsFormat::kText || format == StatsFormat::kMarkdown; }

// The most rows that people see by default.
inline constexpr uint64_t kDefaultRows = 20;

// What the rows of `torchtrace stats` are.
enum class StatsBy : uint8_t {
  kApi,
  kConfig,
  kFamily,
  kShapes,
  kGraph,
  kKernel,
  kLevel,
  kThread,
  kProcess,
  kRank,
  kLabel,
  kLine,
  kModule,
  kStep,
  kTag
};
// All but kName and kFirst are descending, kMemory by what was allocated; the order of steps is by name.
enum class StatsSort : uint8_t { kCalls, kConfigs, kTime, kSelf, kName, kFirst, kFlops, kBytes, kDevice, kMemory };

class ShapeRules;

struct StatsGrouping {
  StatsBy by = StatsBy::kApi;
  std::string tag = {};  // kTag: its name
};
// `api`, `config`, ..., `tag:step`; InvalidArgument with the choices, and the nearest one.
absl::StatusOr<StatsGrouping> ParseStatsGrouping(std::string_view text);
// The names that it takes, except tags.
std::vector<std::string> StatsGroupingNames();
const Choices<StatsFormat>& StatsFormats();
const Choices<StatsSort>& StatsSorts();

struct StatsTrace {
  Trace* trace = nullptr;
  std::string name;  // in the table
};

// Calls that the selection leaves out are in no total, but their time still counts for the calls around them.
struct StatsOptions : CallSelection {
  StatsGrouping grouping;
  StatsFormat format = StatsFormat::kText;
  std::optional<StatsSort> sort = {};  // kCalls; of shapes kSelf; of steps kName
  // Only the first so many rows of each table; 0: all. Default: all for programs, what fits on a screen for people.
  std::optional<uint64_t> top = {};
  ReportScreen screen = {};
  Coarsening ignore;  // configs that are equal without these parts count as one
  bool sum = false;   // adds several traces up instead of showing them side by side
  // false: no times, exceptions and order of calls, unless the grouping needs them: counting is several times faster
  // than reading.
  bool times = true;
  bool all_times = false;  // also mean, least, most and percentiles of the calls' times
  bool numbers = false;    // also the extremes of what the calls return and write
  // Instead of the built-in rules, for FLOPs and bytes of all groupings. Without it, groupings by shapes and module
  // show them, and all in an order by them.
  const ShapeRules* shape_rules = nullptr;
};

// Writes the tables of `torchtrace stats`: calls, share, configs and time of one trace, or of several side by side.
// Equal configs of different traces count as one. APIs, configs, families and shapes get one table for each level; ties
// in the order are sorted by first appearance. Time is summed over the calls that are not inside another call of the
// row; self time leaves out the recorded calls inside. Reads each trace once; memory grows with configs and threads.
//
// docs/STATS.md lists the keys of JSON and the columns of CSV. InvalidArgument for an order by times that the traces
// don't have, FailedPrecondition if numbers were not recorded, Aborted when `out` fails. `notes` gets remarks to print
// with the report.
absl::Status WriteStats(const std::vector<StatsTrace>& traces, const StatsOptions& options, std::ostream* out,
                        std::vector<std::string>* notes = nullptr);

// The same by kernel, which WriteStats calls: the work of devices by name, with count, time and bytes, and of
// collectives with their operation, group and ranks. FailedPrecondition for a trace without device times.
absl::Status WriteKernels(const std::vector<StatsTrace>& traces, const StatsOptions& options, std::ostream* out);

struct CensusOptions {
  StatsFormat format = StatsFormat::kText;
  std::optional<uint64_t> top = {};  // as in StatsOptions; operators most often outside come first
  ReportScreen screen = {};
  GlobFilter filter;  // over names of operators; totals are of those that it accepts
};

// The census of `torchtrace stats --census`: which operators (level 2) ran inside an API call (level 1), and which ran
// outside, where level 1 misses them. A call is inside if any call around it on its thread is of level 1; one whose
// outer calls are lost counts as outside. Reads the trace once; memory grows with APIs and threads.
//
// docs/STATS.md lists the keys of JSON and the columns of CSV. FailedPrecondition for a trace that was not recorded at
// levels 1 and 2, Aborted when `out` fails.
absl::Status WriteCensus(const std::vector<StatsTrace>& traces, const CensusOptions& options, std::ostream* out);

struct CoverageOptions {
  StatsFormat format = StatsFormat::kText;
  GlobFilter filter;        // over names, of the list and of calls outside of it
  std::vector<int> levels;  // whose calls count; empty: all
  // Which rows are shown; the totals are of all.
  bool namespaces = false;  // counts by module or namespace; in CSV only these
  bool called = true;
  bool never = true;
  bool outside = false;  // called, but not in the list
  // An operator's name without overload means the default overload, instead of all overloads.
  bool exact_overloads = false;
};

class ApiNames;

struct CoverageTotals {
  size_t listed = 0;
  size_t called = 0;
  std::vector<std::string> repeated = {};  // entries of the list that name the same API as another entry

  // Whether at least so many percent of the list were called.
  bool Reaches(double percent) const {
    return 100.0 * static_cast<double>(called) >= percent * static_cast<double>(listed);
  }
};

// The entries that are no known API or operator, with their places, unless the user wrote them as `?NAME` or a scan
// found them. `knows_operators`: `names` has all operators; without it, an operator counts only if a known name is
// near.
std::vector<WrittenName> UnknownListNames(const ApiList& list, const std::string& list_name, const ApiNames& names,
                                          bool knows_operators);

// The report of `torchtrace apis coverage`: which APIs or operators of a list the traces call, how often and with how
// many configs, and which they never call. A call counts for the entry that has its name, also as an alias; reads and
// writes of a property (`NAME.__get__`) count for the property. Operators match in any spelling (`aten::add.Tensor`,
// `aten.add.Tensor`, `torch.ops.aten.add.Tensor`). A config that several levels saw counts once, and so do its calls.
// `list_name` is the list's name in the report. Counts each trace once; memory grows with the configs.
//
// InvalidArgument if the filter leaves nothing of the list; Aborted when `out` fails, with the totals filled in.
absl::Status WriteCoverage(const std::vector<StatsTrace>& traces, const ApiList& list, const std::string& list_name,
                           const CoverageOptions& options, std::ostream* out, CoverageTotals* totals);

// The levels that a trace was recorded at; if its metadata doesn't say, those of its calls. Count or read the trace
// first.
std::vector<int> RecordedLevels(const Trace& trace);

inline constexpr uint64_t kMaxWaitingCalls = 100'000;

enum class DumpFormat : uint8_t { kText, kJsonl };
const Choices<DumpFormat>& DumpFormats();

struct DumpOptions : CallSelection {
  uint32_t depth = UINT32_MAX;  // the most levels of nesting to show
  uint64_t slowest = 0;         // only the N slowest calls, the slowest first; 0: all, in program order
  uint64_t tail = 0;            // only the last N calls; 0: all
  DumpFormat format = DumpFormat::kText;
  // Text only. If the only call inside a call has the same arguments, shows its name on the same line; shortens long
  // containers.
  bool fold = false;
  size_t width = 0;    // of a line, in characters: cuts the arguments to fit; 0: unlimited
  bool color = false;  // ANSI colours
  // Shows calls' whole stacks, in this form.
  std::optional<StackFormat> stacks;
  uint64_t max_waiting_calls = kMaxWaitingCalls;
};

// `torchtrace dump`: one line per call in program order, indented by nesting, with its level if the trace has several,
// and with its duration, the type of the exception it raised, or a mark that it never returned. Streams: a call's line
// waits for its end while fewer than max_waiting_calls lines wait; beyond that it is written as `<unfinished>`, and a
// later line says how the call ended.
//
// FailedPrecondition for the slowest calls of a trace without times; Aborted as soon as `out` fails.
absl::Status WriteDump(Trace* trace, const DumpOptions& options, std::ostream* out);

struct TreeOptions {
  LabelBy by = LabelBy::kApi;
  uint32_t depth = UINT32_MAX;      // the most levels of nesting to show
  int64_t min_time_ns = 0;          // hides nodes of less total time
  uint64_t max_nodes = 0;           // text: only so many, those that took longest or were called most; 0: all
  size_t width = 0;                 // of a line of text, in characters: clips names to fit; 0: unlimited
  bool first_called_first = false;  // default: the longest first
  bool backward_at_forward = false;
  bool imports = false;      // by API: shows the calls that imports make; default: a node `(import torch)` per library
  CallSelection calls = {};  // calls that it leaves out belong to the call around them
  bool json = false;
  bool color = false;                     // ANSI colours; text only
  TreeWeight weight = TreeWeight::kTime;  // what is shown and sorted by
};

// `torchtrace tree`: what called what, by thread, folded (serialize/trace/call_tree.h). Memory grows with the nodes.
// FailedPrecondition if no call has a label of the kind `by`; Aborted when `out` fails.
absl::Status WriteTree(Trace* trace, const TreeOptions& options, std::ostream* out);

struct InfoOptions {
  bool json = false;  // the object of run.json, with "complete", the text's lines about that; else text
  // The trace's format, if it is not a log.
  std::string format = {};
};

// `torchtrace info`: what was run, where and with what, how many calls were recorded in how many bytes, how each
// process ended, and whether anything is missing or damaged. Counts the trace once. `path` as the user gave it. Aborted
// when `out` fails.
absl::Status WriteInfo(Trace* trace, const std::string& path, const InfoOptions& options, std::ostream* out);

struct OpenCallsOptions {
  bool json = false;
  size_t width = 0;  // of a line of text; 0: unlimited
};

// `torchtrace info --open`: the calls that have not ended, by process and thread, innermost last, with how long they
// have been open: until now if their process runs on this machine and still writes its log, else until its last record.
// Below them is the stack of the innermost call that has one. If no call is open, shows the last one that ended. Reads
// the trace once; memory grows with threads and open calls. Aborted when `out` fails.
absl::Status WriteOpenCalls(Trace* trace, const OpenCallsOptions& options, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_REPORTS_H_
