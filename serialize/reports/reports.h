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
#include "serialize/base/choices.h"
#include "serialize/base/matching.h"
#include "serialize/configs/dedup.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/reports/durations.h"
#include "serialize/reports/report_table.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// Calls and times of a trace, summed per config and per place: one reading, or
// one counting, from which every grouping of `torchtrace stats` is made.

struct CallTotal {
  uint64_t calls = 0;
  uint64_t raised = 0;
  uint64_t outermost = 0;       // of the calls that cost something: those in no other such call of their level
  uint64_t lacking = 0;         // of the calls that should cost something: those with no such call around or inside
  int64_t time_ns = 0;          // from entering to leaving; of calls that are in no other call of their row
  int64_t self_time_ns = 0;     // without the recorded calls inside
  uint64_t first = UINT64_MAX;  // number of the first call
  bool timed = false;           // some of them have times
  Durations durations = {};     // of the calls whose time counts, where asked for

  void Add(const CallTotal& other) {
    durations.Add(other.durations);
    calls += other.calls;
    raised += other.raised;
    outermost += other.outermost;
    lacking += other.lacking;
    time_ns += other.time_ns;
    self_time_ns += other.self_time_ns;
    first = first < other.first ? first : other.first;
    timed = timed || other.timed;
  }
};

// Where calls were made, beside what was called: their thread, line, module, tag. Dense numbers that whoever asks
// gives.
using PlaceId = uint32_t;
inline constexpr PlaceId kNoPlace = UINT32_MAX;
struct PlaceTotal {
  CallTotal total;
  absl::flat_hash_set<ConfigId> configs;  // seen
};

struct TraceTotals {
  std::vector<CallTotal> configs;  // by ConfigId
  std::vector<PlaceTotal> places;  // by PlaceId, where asked for
  bool has_times = false;          // else all of them are 0: none were kept
  uint64_t untimed = 0;            // calls of threads without times
};

inline constexpr uint32_t kNoRow = UINT32_MAX;

struct SumOptions {
  // The row that a config's calls are shown in; kNoRow: they don't count. Asked once per config. The time of a call
  // that is in another one of its row is in that one's already.
  std::function<uint32_t(ConfigId)> row;
  // The place of a call at its entry, not kNoPlace; `around`: of the call around it, which may have none. Where there
  // are places, each is a row. Asked of all calls.
  std::function<PlaceId(const CallRecord& entry, PlaceId around)> place = nullptr;
  // Whether its calls cost something, for CallTotal::outermost. Asked once per config that has a row.
  std::function<bool(ConfigId)> costs = nullptr;
  // Whether its calls should, and nobody knows how much, for CallTotal::lacking.
  std::function<bool(ConfigId)> lacks = nullptr;
  // Those that it doesn't mean don't count. Names and levels are left to `row`.
  const CallSelection* selection = nullptr;
  bool durations = false;
};
absl::StatusOr<TraceTotals> SumCalls(Trace* trace, const SumOptions& options);

// Only how often each config was called, from Trace::Count: several times faster. `first`
// is the config's id, which is in the order of the definitions.
absl::StatusOr<TraceTotals> CountConfigs(Trace* trace, const std::function<uint32_t(ConfigId)>& row);

// The formats of stats, census and coverage (report_table.h).
enum class StatsFormat : uint8_t { kText, kJson, kCsv, kMarkdown };
// Who reads it wants no more than a screen of it, unless told otherwise; programs want all.
inline bool IsForPeople(StatsFormat format) { return format == StatsFormat::kText || format == StatsFormat::kMarkdown; }

// How many rows people see where they don't say.
inline constexpr uint64_t kDefaultRows = 20;

// The tables of `torchtrace stats`: calls, share, configs and time, by API, config,
// family, shapes, level, thread, process, rank, label, calling line, module or tag, over one trace or several side by
// side. Reads each trace once; memory goes with the configs and threads. Equal configs
// of different traces count as one.

enum class StatsBy : uint8_t {
  kApi,
  kConfig,
  kFamily,
  kShapes,
  kLevel,
  kThread,
  kProcess,
  kRank,
  kLabel,
  kLine,
  kModule,
  kTag
};
// kCalls, kConfigs, kTime and kSelf: the most first.
enum class StatsSort : uint8_t { kCalls, kConfigs, kTime, kSelf, kName, kFirst, kFlops };

struct StatsGrouping {
  StatsBy by = StatsBy::kApi;
  std::string tag = {};  // kTag: its name
};
// `api`, `config`, ..., `tag:step`; InvalidArgument with the choices, and the nearest one.
absl::StatusOr<StatsGrouping> ParseStatsGrouping(std::string_view text);
// What it takes, but for tags.
std::vector<std::string> StatsGroupingNames();
const Choices<StatsFormat>& StatsFormats();
const Choices<StatsSort>& StatsSorts();

// A trace and what the table calls it.
struct StatsTrace {
  Trace* trace = nullptr;
  std::string name;
};

// What names and levels leave out is in no total, and costs time in the calls around it all the same: so does what the
// selection leaves out else.
struct StatsOptions : CallSelection {
  StatsGrouping grouping;
  StatsFormat format = StatsFormat::kText;
  std::optional<StatsSort> sort = {};  // kCalls; of shapes kSelf
  // So many rows of each table, the first in that order; 0: all. Else all for programs, and for people what fits on a
  // screen.
  std::optional<uint64_t> top = {};
  ReportScreen screen = {};
  Coarsening ignore;  // configs that are equal without it count as one
  bool sum = false;   // several traces as one, and not side by side
  // Without times, exceptions and the order of calls where these aren't needed:
  // counting is several times faster than reading.
  bool times = true;
  bool all_times = false;  // mean, least, most and ranks of the calls' times too
};

// Rows of APIs, configs, families and shapes come by level, a table for each; those that are equal in what they are
// sorted by come by first appearance. Time is what passed between entering and leaving, summed over the calls that are
// in no other call of the row; self time leaves out the recorded calls inside. docs/STATS.md lists the keys of JSON and
// the columns of CSV. InvalidArgument for an order that needs times which the traces don't have, Aborted when `out`
// fails. `notes` gets what is to be said beside the report.
absl::Status WriteStats(const std::vector<StatsTrace>& traces, const StatsOptions& options, std::ostream* out,
                        std::vector<std::string>* notes = nullptr);

// The census of `torchtrace stats --census`: which operators (level 2) ran inside an
// API call (level 1) and which did not, so that level 1 did not see them. One
// reading; memory goes with the APIs and threads.

struct CensusOptions {
  StatsFormat format = StatsFormat::kText;
  std::optional<uint64_t> top = {};  // as in StatsOptions; operators most often outside come first
  ReportScreen screen = {};
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
  bool namespaces = false;  // how many of each module's or namespace's; in CSV it stands alone
  bool called = true;
  bool never = true;
  bool outside = false;  // called and not in the list
  // An operator's name without overload is that overload, and not all of them.
  bool exact_overloads = false;
};

class ApiNames;

struct CoverageTotals {
  size_t listed = 0;
  size_t called = 0;
  std::vector<std::string> repeated = {};  // names of the list that are other names of APIs in it

  // Whether at least so many percent of the list were called.
  bool Reaches(double percent) const {
    return 100.0 * static_cast<double>(called) >= percent * static_cast<double>(listed);
  }
};

// InvalidArgument, with its place, for an entry that no known API or operator is called, and that neither a user
// (`?NAME`) nor a scan answers for. `knows_operators`: what isn't among the operators is none.
absl::Status CheckListNames(const ApiList& list, const std::string& list_name, const ApiNames& names,
                            bool knows_operators);

// A call is of the entry that has its name, or has it among its aliases; of a property also
// when a read or write of it was called (`NAME.__get__`). Operators go by any spelling
// (`aten::add.Tensor`, `aten.add.Tensor`, `torch.ops.aten.add.Tensor`). A config that several
// levels saw counts once, and so do its calls. `list_name` is how the report calls the list.
// InvalidArgument when the filter leaves nothing of it; Aborted when `out` fails, and then the totals are there.
absl::Status WriteCoverage(const std::vector<StatsTrace>& traces, const ApiList& list, const std::string& list_name,
                           const CoverageOptions& options, std::ostream* out, CoverageTotals* totals);

// The levels that a trace was recorded at; where its metadata doesn't tell, those of its
// calls. It was counted or read before.
std::vector<int> RecordedLevels(const Trace& trace);

// `torchtrace dump`: one line per call in program order, with its level where several stand together, indented by
// nesting, with its duration, the type of the exception it raised, or a mark that it never returned. Streams: a call's
// line waits for its end only while fewer than kMaxWaitingCalls lines wait; then it is written as `<unfinished>`, and a
// line of its own tells how it ended.

inline constexpr uint64_t kMaxWaitingCalls = 100'000;

enum class DumpFormat : uint8_t { kText, kJsonl };
const Choices<DumpFormat>& DumpFormats();

struct DumpOptions : CallSelection {
  uint32_t depth = UINT32_MAX;  // so many generations of what is shown
  uint64_t slowest = 0;         // only the N calls that took longest, those first; 0: all, in program order
  uint64_t tail = 0;            // only the last N calls; 0: all
  DumpFormat format = DumpFormat::kText;
  // Text only. An operator that is the only call in one with the same arguments stands behind that on its line, and
  // long containers are shortened.
  bool fold = false;
  size_t width = 0;    // of a line, in characters; what a call has more of arguments is left out; 0: any
  bool color = false;  // ANSI colours
  // Shows calls' whole stacks, in this form.
  std::optional<StackFormat> stacks;
  uint64_t max_waiting_calls = kMaxWaitingCalls;
};

// FailedPrecondition for the slowest calls of a trace without times; Aborted when `out` fails, and then at once.
absl::Status WriteDump(Trace* trace, const DumpOptions& options, std::ostream* out);

// `torchtrace tree`: what called what, by thread, folded (serialize/trace/call_tree.h). Memory goes with its nodes.

struct TreeOptions {
  LabelBy by = LabelBy::kApi;
  uint32_t depth = UINT32_MAX;      // so many generations
  int64_t min_time_ns = 0;          // only what took so long in all
  uint64_t max_nodes = 0;           // text: only so many, those that took longest or were called most; 0: all
  size_t width = 0;                 // of a line of text, in characters; names are clipped for it; 0: any
  bool first_called_first = false;  // else the longest
  bool backward_at_forward = false;
  bool imports = false;      // of api: what imports call, which else is in nodes `(import)`
  CallSelection calls = {};  // what it leaves out belongs to the call around it
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

// `torchtrace info --open`: the calls that have not ended, by process and thread, innermost last, with how long they
// have been open: until now in a process of this machine that still writes its log, else up to its last record. Under
// them the stack of the innermost one that has one. Where no call is open, the last one that ended. One reading; memory
// goes with the threads and open calls.

struct OpenCallsOptions {
  bool json = false;
  size_t width = 0;  // of a line of text; 0: any
};

// Aborted when `out` fails.
absl::Status WriteOpenCalls(Trace* trace, const OpenCallsOptions& options, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_REPORTS_H_
