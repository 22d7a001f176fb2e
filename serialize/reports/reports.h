// What the verbs tell of a trace: stats, census, coverage, info, dump.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_REPORTS_H_
#define TORCHTRACE_SERIALIZE_REPORTS_REPORTS_H_

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
#include "serialize/base/matching.h"
#include "serialize/configs/dedup.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/reports/durations.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Calls and times of a trace, summed per config and per thread: one reading, or
// one counting, from which every grouping of `torchtrace stats` is made.

struct CallTotal {
  uint64_t calls = 0;
  uint64_t raised = 0;
  int64_t time_ns = 0;          // from entering to leaving
  int64_t self_time_ns = 0;     // without the recorded calls inside
  uint64_t first = UINT64_MAX;  // number of the first call
  Durations durations = {};     // of the calls that ended, where asked for

  void Add(const CallTotal& other) {
    durations.Add(other.durations);
    calls += other.calls;
    raised += other.raised;
    time_ns += other.time_ns;
    self_time_ns += other.self_time_ns;
    first = first < other.first ? first : other.first;
  }
};

struct ThreadTotal {
  CallTotal total;
  absl::flat_hash_set<ConfigId> configs;  // seen
};

// Where calls were made: a line of Trace::stacks, or the config of a module's call (level 3).
using PlaceId = uint32_t;
inline constexpr PlaceId kNoPlace = UINT32_MAX;
struct PlaceTotal {
  CallTotal total;
  absl::flat_hash_set<ConfigId> configs;  // seen
};

struct TraceTotals {
  std::vector<CallTotal> configs;                                // by ConfigId
  std::map<std::pair<uint32_t, uint32_t>, ThreadTotal> threads;  // kThread: by process and thread
  std::map<PlaceId, PlaceTotal> places;                          // kLine, kModule; kNoPlace: those that have none
  bool has_times = false;                                        // else all of them are 0: none were kept
};

// Sums the calls of the configs that `accepts` takes; it is asked once per config. They are summed
// by config, and also by what `also_by` says. A call of a module is made in that module, and so is what it calls that
// is in no inner one; the time of what another call in the same module made is in that one's already, and counts as
// self time alone.
enum class SumBy : uint8_t { kConfig, kThread, kLine, kModule };
absl::StatusOr<TraceTotals> SumCalls(Trace* trace, const std::function<bool(ConfigId)>& accepts,
                                     SumBy also_by = SumBy::kConfig, bool durations = false);

// Only how often each config was called, from Trace::Count: several times faster. `first`
// is the config's id, which is in the order of the definitions.
absl::StatusOr<TraceTotals> CountConfigs(Trace* trace, const std::function<bool(ConfigId)>& accepts);

// The formats of stats, census and coverage (report_table.h).
enum class StatsFormat : uint8_t { kText, kJson, kCsv, kMarkdown };

// The tables of `torchtrace stats`: calls, share, configs and time, by API, config,
// family, level, thread, process, rank, label, calling line or module, over one trace or several side by
// side. Reads each trace once; memory goes with the configs and threads. Equal configs
// of different traces count as one.

enum class StatsBy : uint8_t { kApi, kConfig, kLevel, kThread, kProcess, kRank, kLabel, kFamily, kLine, kModule };
// kCalls, kConfigs, kTime and kSelf: the most first.
enum class StatsSort : uint8_t { kCalls, kConfigs, kTime, kSelf, kName, kFirst };

// `api`, `config`, ...; InvalidArgument with the choices, and the nearest one.
absl::StatusOr<StatsBy> ParseStatsBy(std::string_view text);
absl::StatusOr<StatsFormat> ParseStatsFormat(std::string_view text);
absl::StatusOr<StatsSort> ParseStatsSort(std::string_view text);

// A trace and what the table calls it.
struct StatsTrace {
  Trace* trace = nullptr;
  std::string name;
};

struct StatsOptions {
  StatsBy by = StatsBy::kApi;
  StatsFormat format = StatsFormat::kText;
  StatsSort sort = StatsSort::kCalls;
  uint64_t top = 0;         // so many rows, the first in that order; 0: all
  GlobFilter filter;        // over API names; totals are of what it accepts
  std::vector<int> levels;  // empty: all
  Coarsening ignore;        // configs that are equal without it count as one
  bool sum = false;         // several traces as one, and not side by side
  // Without times, exceptions and the order of calls where these aren't needed:
  // counting is several times faster than reading.
  bool times = true;
  bool all_times = false;  // mean, least, most and ranks of the calls' times too
};

// Rows that are equal in what they are sorted by come by first appearance. Time is what
// passed between entering and leaving, summed; self time leaves out the recorded calls
// inside. docs/STATS.md lists the keys of JSON and the columns of CSV. InvalidArgument
// for an order that needs times which the traces don't have, Aborted when `out` fails.
absl::Status WriteStats(const std::vector<StatsTrace>& traces, const StatsOptions& options, std::ostream* out);

// The census of `torchtrace stats --census`: which operators (level 2) ran inside an
// API call (level 1) and which did not, so that level 1 did not see them. One
// reading; memory goes with the APIs and threads.

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

// The report of `torchtrace apis coverage`: which APIs or operators of a list were
// called in some traces, how often and with how many configs, and which never were.
// Counts each trace once; memory goes with the configs.

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

// `torchtrace dump`: one line per call in program order, indented by nesting,
// with its duration, the type of the exception it raised, or a mark that it
// never returned. Streams: a call's line waits for its end only while fewer
// than kMaxWaitingCalls lines wait; then it is written as `<unfinished>`, and a
// line of its own tells how it ended.

inline constexpr uint64_t kMaxWaitingCalls = 100'000;

enum class DumpFormat : uint8_t { kText, kJsonl };
absl::StatusOr<DumpFormat> ParseDumpFormat(std::string_view text);

struct DumpOptions {
  std::optional<NumberSet> calls;  // of the trace, from 0
  GlobFilter filter;               // over API names
  std::vector<int> levels;         // empty: all
  DumpFormat format = DumpFormat::kText;
  bool color = false;  // ANSI colours; text only
  // Shows calls' whole stacks, in this form.
  std::optional<StackFormat> stacks;
  uint64_t max_waiting_calls = kMaxWaitingCalls;
};

// How many calls it shows. Aborted when `out` fails, and then at once.
absl::StatusOr<uint64_t> WriteDump(Trace* trace, const DumpOptions& options, std::ostream* out);

// `torchtrace tree`: what called what, by thread, folded (serialize/trace/call_tree.h). Memory goes with its nodes.

struct TreeOptions {
  LabelBy by = LabelBy::kApi;
  uint32_t depth = UINT32_MAX;      // so many generations
  int64_t min_time_ns = 0;          // only what took so long in all
  bool first_called_first = false;  // else the longest
  bool backward_at_forward = false;
  std::optional<uint32_t> thread = {};  // only threads of this number
  GlobFilter filter = {};               // over API names
  std::vector<int> levels = {};         // empty: all
  bool json = false;
  bool color = false;  // ANSI colours; text only
};

// FailedPrecondition where no call has what the tree is of; Aborted when `out` fails.
absl::Status WriteTree(Trace* trace, const TreeOptions& options, std::ostream* out);

// What `torchtrace info` shows: what was run, where and with what, how many
// calls were recorded in how many bytes, how each process ended, and whether
// anything is missing or damaged. Counts the trace once.

struct InfoOptions {
  bool json = false;  // the object of run.json, else text
  // How the trace is written, where that is not a log.
  std::string format = {};
};

// `path` as the user gave it. Aborted when `out` fails.
absl::Status WriteInfo(Trace* trace, const std::string& path, const InfoOptions& options, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_REPORTS_H_
