#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "serialize/base/matching.h"
#include "serialize/base/text.h"
#include "serialize/configs/family.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/reports/report_table.h"
#include "serialize/reports/reports.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// What a row shows of all traces together, or of one of them.
struct Cells {
  CallTotal total;
  uint64_t configs = 0;
  uint64_t apis = 0;
};

struct Row {
  std::vector<ReportCell> labels;  // what the row is about
  std::string text_label;          // the same for people
  // For sorting by name: numbers by their value.
  std::optional<int64_t> number;
  uint64_t order = 0;  // tells rows apart that are equal else
  Cells all;
  std::vector<Cells> traces;  // side by side
};

struct Totals {
  uint64_t calls = 0;
  uint64_t apis = 0;
  uint64_t configs = 0;
};

// A config of one of the traces, coarsened; equal ones of others are added to it.
struct GlobalConfig {
  std::string_view identity;
  ConfigHead head;
  CallTotal all;
  std::vector<CallTotal> traces;  // side by side
};

struct Grouping {
  StatsBy by;
  const char* name;
  const char* list;    // the JSON's name of the rows
  const char* title;   // of the label's column
  bool label_last;     // long labels
  bool apis;           // shows how many APIs
  bool configs;        // shows how many configs
  bool of_one_trace;   // no row has calls of two traces
  const char* labels;  // the names of what a row is about
};
constexpr Grouping kGroupings[] = {
    {StatsBy::kApi, "api", "apis", "API", false, false, true, false, "api level"},
    {StatsBy::kConfig, "config", "configs", "config", true, false, false, false, "config api level"},
    {StatsBy::kLevel, "level", "levels", "level", false, true, true, false, "level"},
    {StatsBy::kThread, "thread", "threads", "thread", false, true, true, true, "process log thread os_id name"},
    {StatsBy::kProcess, "process", "processes", "process", false, true, true, true, "process log ended"},
    {StatsBy::kRank, "rank", "ranks", "rank", false, true, true, false, "rank"},
    {StatsBy::kLabel, "label", "labels", "label", false, true, true, false, "label"},
    {StatsBy::kFamily, "family", "families", "family", true, false, true, false, "family api level"},
    {StatsBy::kLine, "line", "lines", "line", true, true, true, false, "file line function module"},
    {StatsBy::kModule, "module", "modules", "module", true, true, true, false, "module class"},
};

absl::Status UnknownChoice(const char* what, std::string_view text, const std::vector<std::string>& names) {
  return absl::InvalidArgumentError(absl::StrCat(what, " \"", std::string(text), "\"", DidYouMean(text, names),
                                                 " (known: ", absl::StrJoin(names, ", "), ")"));
}

class StatsReport {
 public:
  StatsReport(const std::vector<StatsTrace>& traces, const StatsOptions& options, std::ostream* out)
      : traces_(traces),
        options_(options),
        out_(out),
        grouping_(*std::find_if(std::begin(kGroupings), std::end(kGroupings),
                                [&](const Grouping& grouping) { return grouping.by == options.by; })),
        side_by_side_(traces.size() > 1 && !options.sum && !grouping_.of_one_trace),
        reads_(options.times || by_thread() || options.sort == StatsSort::kFirst),
        filter_(options.filter),
        trace_totals_(traces.size()) {}

  absl::Status Run() {
    for (size_t i = 0; i < traces_.size(); ++i) {
      if (by_line() && !HasStacks(*traces_[i].trace)) {
        return absl::InvalidArgumentError(
            absl::StrCat(traces_[i].name, " has no stacks: they are recorded by torchtrace run --stacks"));
      }
      if (absl::Status s = Add(i); !s.ok()) return s;
    }
    if (options_.by == StatsBy::kModule && !has_modules_) {
      return absl::InvalidArgumentError(
          absl::StrCat(traces_.size() == 1 ? traces_[0].name + " has" : std::string("the traces have"),
                       " no calls of modules: they are recorded by torchtrace run at level 3"));
    }
    if (!has_times_ && (options_.sort == StatsSort::kTime || options_.sort == StatsSort::kSelf)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "cannot sort by time: ",
          reads_ ? absl::StrCat(traces_.size() == 1 ? traces_[0].name + " has" : std::string("the traces have"),
                                " no times")
                 : std::string("--no-times leaves them out")));
    }
    MakeRows();
    Sort();
    return Write();
  }

 private:
  // What one row of threads has in all traces or in one: their configs and APIs are sets.
  struct Tally {
    Cells cells;
    absl::flat_hash_set<size_t> configs;  // indices into configs_
    absl::flat_hash_set<std::pair<int, std::string_view>> apis;
    // Nothing is added any more.
    void Forget() { configs = {}, apis = {}; }
  };
  struct ThreadRow {
    Row row;
    Tally all;
    std::vector<Tally> traces;
  };
  // By trace, process and thread; or by rank or label, as text.
  using ThreadKey = std::tuple<size_t, uint32_t, uint32_t, std::string>;

  bool by_thread() const {
    return options_.by == StatsBy::kThread || options_.by == StatsBy::kProcess || options_.by == StatsBy::kRank ||
           options_.by == StatsBy::kLabel || by_place();
  }
  bool by_line() const { return options_.by == StatsBy::kLine; }
  bool by_place() const { return by_line() || options_.by == StatsBy::kModule; }
  SumBy SumsBy() const {
    if (by_place()) return by_line() ? SumBy::kLine : SumBy::kModule;
    return by_thread() ? SumBy::kThread : SumBy::kConfig;
  }

  bool Accepts(const ConfigHead& head) {
    const std::vector<int>& levels = options_.levels;
    return (levels.empty() || std::find(levels.begin(), levels.end(), head.level) != levels.end()) &&
           filter_.Accepts(head.api);
  }

  absl::Status Add(size_t number) {
    Trace* const trace = traces_[number].trace;
    // Counting makes the configs known, so that each is matched against the filters once, before the reading.
    const absl::StatusOr<std::vector<uint64_t>> counted = trace->Count();
    if (!counted.ok()) return counted.status();
    const auto accepts = [this, trace](ConfigId id) { return Accepts(ReadConfigHead(trace->identity(id))); };
    absl::StatusOr<TraceTotals> totals =
        reads_ ? SumCalls(trace, accepts, SumsBy(), options_.all_times) : CountConfigs(trace, accepts);
    if (!totals.ok()) return totals.status();
    has_times_ = has_times_ || (options_.times && totals->has_times);
    // Calls of a later trace come after those of the earlier ones.
    const uint64_t first_call = calls_before_;
    std::vector<size_t> ids(totals->configs.size());
    for (ConfigId id = 0; id < totals->configs.size(); ++id) {
      CallTotal& total = totals->configs[id];
      if (total.calls == 0) continue;
      total.first += first_call;
      ids[id] = AddConfig(number, trace->identity(id), total);
    }
    if (by_place()) {
      const StackText text(*trace);
      for (auto& [place, total] : totals->places) {
        if (total.total.calls == 0) continue;
        total.total.first += first_call;
        AddPlace(number, by_line() ? LabelLine(*trace, place, text) : LabelModule(*trace, place), total, ids);
      }
    } else if (by_thread()) {
      for (auto& [key, thread] : totals->threads) {
        if (thread.total.calls == 0) continue;
        thread.total.first += first_call;
        AddThread(number, key.first, key.second, thread, ids);
        thread.configs = {};  // there may be many threads
      }
    }
    for (const ProcessInfo& process : trace->processes()) calls_before_ += process.calls;
    return absl::OkStatus();
  }

  size_t AddConfig(size_t trace, std::string_view identity, const CallTotal& total) {
    if (!options_.ignore.empty()) {
      std::string coarse = options_.ignore.Apply(identity);
      if (config_index_.find(coarse) == config_index_.end()) {
        coarse_.push_back(std::move(coarse));
        identity = coarse_.back();
      } else {
        identity = config_index_.find(coarse)->first;
      }
    }
    const auto [at, fresh] = config_index_.try_emplace(identity, configs_.size());
    if (fresh) configs_.push_back({identity, ReadConfigHead(identity), {}, {}});
    GlobalConfig& config = configs_[at->second];
    config.all.Add(total);
    if (side_by_side_) {
      config.traces.resize(traces_.size());
      config.traces[trace].Add(total);
    }
    return at->second;
  }

  void AddThread(size_t trace, uint32_t process, uint32_t thread, const ThreadTotal& total,
                 const std::vector<size_t>& ids) {
    const ProcessInfo& info = traces_[trace].trace->processes()[process];
    ReportCell value(nullptr, "none");  // of a rank or a label
    if (options_.by == StatsBy::kRank && info.known.written_rank.has_value()) value = *info.known.written_rank;
    if (options_.by == StatsBy::kLabel && !info.known.label.empty()) value = ApiCell(info.known.label);
    ThreadKey key(trace, process, options_.by == StatsBy::kThread ? thread : 0, "");
    if (!grouping_.of_one_trace) key = {0, 0, 0, DumpJson(value.value)};
    const auto [at, fresh] = threads_.try_emplace(std::move(key));
    ThreadRow& row = at->second;
    if (fresh) {
      row.traces.resize(side_by_side_ ? traces_.size() : 0);
      if (grouping_.of_one_trace) {
        LabelThread(trace, info, thread, &row.row);
      } else {
        row.row.labels = {value};
        row.row.text_label = value.text.has_value() ? *value.text : value.value.dump();
        if (options_.by == StatsBy::kRank) row.row.number = info.known.written_rank;
      }
    }
    AddToTally(total, ids, &row.all);
    if (side_by_side_) AddToTally(total, ids, &row.traces[trace]);
    if (options_.by == StatsBy::kThread) row.all.Forget();
  }

  Row LabelLine(const Trace& trace, PlaceId line, const StackText& text) const {
    Row row;
    row.labels.resize(4);
    row.text_label = "(no stack)";
    if (line != kNoPlace) {
      const StackPlace& place = trace.stacks().line(line);
      const StackCode& code = trace.stacks().code(place.code);
      row.labels = {std::string(code.file), place.line, std::string(code.function), std::string(code.module)};
      row.text_label = text.Line(line);
    }
    return row;
  }

  Row LabelModule(const Trace& trace, PlaceId config) {
    Row row;
    row.labels.resize(2);
    row.text_label = "(no module)";
    if (config != kNoPlace) {
      const Config module = ReadableConfig(trace.identity(config));
      row.text_label = ModuleLabel(trace.identity(config));
      for (const auto& [keyword, value] : module.kwargs) {
        if (keyword == "path") row.labels[0] = std::string(value.text);
      }
      row.labels[1] = std::string(module.api);
      has_modules_ = true;
    }
    return row;
  }

  // Those of several traces are the same where their labels are.
  void AddPlace(size_t trace, Row label, const PlaceTotal& total, const std::vector<size_t>& ids) {
    std::string key;
    for (const ReportCell& cell : label.labels) absl::StrAppend(&key, DumpJson(cell.value), ",");
    const auto [at, fresh] = threads_.try_emplace(ThreadKey(0, 0, 0, std::move(key)));
    ThreadRow& row = at->second;
    if (fresh) {
      row.traces.resize(side_by_side_ ? traces_.size() : 0);
      row.row = std::move(label);
    }
    AddToTally(total, ids, &row.all);
    if (side_by_side_) AddToTally(total, ids, &row.traces[trace]);
  }

  template <typename Total>
  void AddToTally(const Total& total, const std::vector<size_t>& ids, Tally* tally) const {
    tally->cells.total.Add(total.total);
    for (const ConfigId id : total.configs) {
      if (!tally->configs.insert(ids[id]).second) continue;
      const ConfigHead& head = configs_[ids[id]].head;
      tally->apis.insert({head.level, head.api});
    }
    tally->cells.configs = tally->configs.size();
    tally->cells.apis = tally->apis.size();
  }

  void LabelThread(size_t trace, const ProcessInfo& process, uint32_t thread, Row* row) const {
    const std::string name = ProcessName(process);
    row->text_label = name;
    if (ShowsTrace()) {
      row->labels.push_back(traces_[trace].name);
      row->text_label = absl::StrCat(traces_[trace].name, " ", name);
    }
    row->labels.push_back(name);
    row->labels.push_back(process.path);
    if (options_.by == StatsBy::kProcess) {
      row->labels.push_back(DescribeEnd(process));
      return;
    }
    row->labels.push_back(thread);
    absl::StrAppend(&row->text_label, " thread ", thread);
    const ThreadInfo* const info = FindThread(process, thread);
    const bool known = info != nullptr;
    row->labels.push_back(known ? ordered_json(info->os_id) : ordered_json());
    row->labels.push_back(known ? info->name : "");
    if (known && !info->name.empty()) absl::StrAppend(&row->text_label, " ", FormatApi(info->name));
  }

  // Rows of threads and processes say whose they are.
  bool ShowsTrace() const { return grouping_.of_one_trace && traces_.size() > 1; }

  void AddTo(Row* row, const GlobalConfig& config) const {
    row->all.total.Add(config.all);
    ++row->all.configs;
    if (!side_by_side_) return;
    row->traces.resize(traces_.size());
    for (size_t i = 0; i < traces_.size(); ++i) {
      if (config.traces[i].calls == 0) continue;
      row->traces[i].total.Add(config.traces[i]);
      ++row->traces[i].configs;
    }
  }

  void MakeRows() {
    using Key = std::pair<int, std::string_view>;  // level, API
    absl::flat_hash_map<Key, Row> apis;
    absl::flat_hash_map<std::pair<int, std::string>, Row> families;
    std::map<int, Row> levels;
    for (size_t i = 0; i < configs_.size(); ++i) {
      const GlobalConfig& config = configs_[i];
      levels_.insert(config.head.level);
      totals_.calls += config.all.calls;
      ++totals_.configs;
      for (size_t t = 0; t < config.traces.size(); ++t) {
        trace_totals_[t].calls += config.traces[t].calls;
        if (config.traces[t].calls > 0) ++trace_totals_[t].configs;
      }
      AddTo(&apis[{config.head.level, config.head.api}], config);
      if (options_.by == StatsBy::kLevel) AddTo(&levels[config.head.level], config);
      if (options_.by == StatsBy::kFamily) AddFamily(config, i, &families);
      if (options_.by == StatsBy::kConfig) {
        Row& row = rows_.emplace_back();
        AddTo(&row, config);
        row.order = i;
      }
    }
    totals_.apis = apis.size();
    for (auto& [key, row] : apis) {
      for (size_t t = 0; t < row.traces.size(); ++t) {
        if (row.traces[t].total.calls > 0) ++trace_totals_[t].apis;
      }
      if (options_.by == StatsBy::kApi) {
        row.text_label = FormatApi(key.second);
        row.labels = {std::string(key.second), key.first};
        row.order = static_cast<uint64_t>(key.first);
        rows_.push_back(std::move(row));
      } else if (options_.by == StatsBy::kLevel) {
        Row& level = levels[key.first];
        ++level.all.apis;
        for (size_t t = 0; t < row.traces.size(); ++t) {
          if (row.traces[t].total.calls > 0) ++level.traces[t].apis;
        }
      }
    }
    for (auto& [level, row] : levels) {
      row.text_label = std::to_string(level);
      row.labels = {level};
      row.number = level;
      rows_.push_back(std::move(row));
    }
    for (auto& [key, row] : families) rows_.push_back(std::move(row));
    for (auto& [key, thread] : threads_) {
      thread.row.all = thread.all.cells;
      for (Tally& tally : thread.traces) thread.row.traces.push_back(tally.cells);
      thread.row.order = rows_.size();
      rows_.push_back(std::move(thread.row));
    }
  }

  // The row's `order` names a config of the family, from which its label is made.
  void AddFamily(const GlobalConfig& config, size_t index,
                 absl::flat_hash_map<std::pair<int, std::string>, Row>* families) const {
    const absl::StatusOr<Config> parsed = ParseConfig(config.identity);
    // What can't be taken apart is a family of its own.
    const std::string key = parsed.ok() ? FindFamily(*parsed).key : std::string(config.identity);
    const auto [at, fresh] = families->try_emplace({config.head.level, key});
    if (fresh) at->second.order = index;
    AddTo(&at->second, config);
  }

  void Sort() {
    const StatsSort sort = options_.sort;
    // Long labels are made only for what is shown, unless they decide it.
    if (sort == StatsSort::kName) LabelConfigs();
    const auto amount = [sort](const Row& row) -> int64_t {
      switch (sort) {
        case StatsSort::kCalls:
          return static_cast<int64_t>(row.all.total.calls);
        case StatsSort::kConfigs:
          return static_cast<int64_t>(row.all.configs);
        case StatsSort::kTime:
          return row.all.total.time_ns;
        case StatsSort::kSelf:
          return row.all.total.self_time_ns;
        default:
          return 0;
      }
    };
    std::sort(rows_.begin(), rows_.end(), [&](const Row& a, const Row& b) {
      if (const int64_t left = amount(a), right = amount(b); left != right) return left > right;
      if (sort == StatsSort::kName) {
        // Numbers before texts, and by their value.
        if (a.number.has_value() != b.number.has_value()) return a.number.has_value();
        if (a.number != b.number) return a.number < b.number;
        if (a.text_label != b.text_label) return a.text_label < b.text_label;
      }
      return std::tie(a.all.total.first, a.order) < std::tie(b.all.total.first, b.order);
    });
    if (options_.top > 0 && rows_.size() > options_.top) {
      rows_left_out_ = rows_.size() - options_.top;
      rows_.resize(options_.top);
    }
    if (sort != StatsSort::kName) LabelConfigs();
  }

  void LabelConfigs() {
    if (options_.by != StatsBy::kConfig && options_.by != StatsBy::kFamily) return;
    for (Row& row : rows_) {
      const GlobalConfig& config = configs_[row.order];
      row.text_label = ConfigText(config.identity);
      if (options_.by == StatsBy::kFamily) {
        if (const absl::StatusOr<Config> parsed = ParseConfig(config.identity); parsed.ok()) {
          row.text_label = FormatFamily(*parsed);
        }
      }
      row.labels = {row.text_label, std::string(config.head.api), config.head.level};
    }
  }

  // Rows of APIs, configs and families end their labels with the level.
  bool ShowsLevel() const {
    const bool has_level =
        options_.by == StatsBy::kApi || options_.by == StatsBy::kConfig || options_.by == StatsBy::kFamily;
    return has_level && levels_.size() > 1;
  }

  absl::Status Write() const {
    ReportWriter report(options_.format, out_);
    report.AddLine(
        absl::StrCat(Counted(totals_.calls, "call", "calls"), " of ", Counted(totals_.apis, "API", "APIs"), " in ",
                     Counted(totals_.configs, "config", "configs"),
                     traces_.size() > 1 ? absl::StrCat(" in ", Counted(traces_.size(), "trace", "traces")) : ""));
    report.AddMembers(
        {{"total_calls", totals_.calls}, {"total_apis", totals_.apis}, {"total_configs", totals_.configs}});
    if (side_by_side_) {
      report.BeginTable("traces", {{"", "trace"}, {"", "total_calls"}, {"", "total_apis"}, {"", "total_configs"}});
      for (size_t i = 0; i < traces_.size(); ++i) {
        const Totals& totals = trace_totals_[i];
        report.AddRow({traces_[i].name, totals.calls, totals.apis, totals.configs});
      }
      report.EndTable();
    }
    report.BeginTable(grouping_.list, Columns());
    for (const Row& row : rows_) {
      std::vector<ReportCell> cells;
      if (!grouping_.label_last) cells.emplace_back(row.text_label);
      cells.insert(cells.end(), row.labels.begin(), row.labels.end());
      const auto add = [&](const char*, const char*, ReportCell cell) { cells.push_back(std::move(cell)); };
      AddNumbers(row.all, totals_, add);
      for (size_t i = 0; i < row.traces.size(); ++i) AddNumbers(row.traces[i], trace_totals_[i], add);
      if (grouping_.label_last) cells.emplace_back(row.text_label);
      report.AddRow(cells);
    }
    report.EndTable(rows_left_out_);
    return report.Finish("the statistics");
  }

  std::vector<ReportColumn> Columns() const {
    std::vector<ReportColumn> columns;
    const ReportColumn label{grouping_.title, "", "", TextTable::kLeft};
    if (!grouping_.label_last) columns.push_back(label);
    if (ShowsTrace()) columns.push_back({"", "trace", "trace"});
    for (const absl::string_view label_name : absl::StrSplit(grouping_.labels, ' ')) {
      const std::string name(label_name);
      columns.push_back({ShowsLevel() && name == "level" ? name : "", name, name});
    }
    const auto add_numbers = [&](bool shown, const std::string* trace) {
      AddNumbers(Cells(), totals_, [&](const char* title, const char* name, const ReportCell&) {
        columns.push_back({shown ? title : "", name, name, TextTable::kRight, trace});
      });
    };
    add_numbers(!side_by_side_, nullptr);
    if (side_by_side_) {
      for (const StatsTrace& trace : traces_) add_numbers(true, &trace.name);
    }
    if (grouping_.label_last) columns.push_back(label);
    return columns;
  }

  // Calls `add` with each number of all traces or of one, as people and programs call it. Side by side there is room
  // for less: of the two times, the one that rows are sorted by.
  template <typename Add>
  void AddNumbers(const Cells& cells, const Totals& totals, const Add& add) const {
    const bool by_self = options_.sort == StatsSort::kSelf;
    const ReportCell percent = PercentCell(cells.total.calls, totals.calls);
    add("calls", "calls", cells.total.calls);
    add(side_by_side_ ? "" : "percent", "", percent);
    if (grouping_.apis) add("APIs", "apis", cells.apis);
    if (grouping_.configs) add("configs", "configs", cells.configs);
    add("", "percent", percent);
    if (has_times_) add(side_by_side_ && by_self ? "" : "time", "time_ns", TimeCell(cells.total.time_ns));
    if (has_times_)
      add(side_by_side_ && !by_self ? "" : "self time", "self_time_ns", TimeCell(cells.total.self_time_ns));
    if (options_.all_times && has_times_) {
      const Durations& durations = cells.total.durations;
      const auto calls = static_cast<int64_t>(std::max<uint64_t>(durations.calls(), 1));
      const auto add_time = [&](const char* title, const char* name, int64_t ns) {
        add(side_by_side_ ? "" : title, name, durations.calls() == 0 ? ReportCell(nullptr, "-") : TimeCell(ns));
      };
      add_time("mean", "mean_ns", cells.total.time_ns / calls);
      add_time("min", "min_ns", durations.least_ns());
      add_time("p50", "p50_ns", durations.Percentile(50));
      add_time("p99", "p99_ns", durations.Percentile(99));
      add_time("max", "max_ns", durations.most_ns());
    }
    if (options_.times) add("", "raised", cells.total.raised);
  }

  const std::vector<StatsTrace>& traces_;
  const StatsOptions& options_;
  std::ostream* const out_;
  const Grouping& grouping_;
  const bool side_by_side_;
  const bool reads_;  // or only counts
  GlobMemo filter_;
  std::vector<GlobalConfig> configs_;
  std::deque<std::string> coarse_;                              // identities that no trace has
  absl::flat_hash_map<std::string_view, size_t> config_index_;  // identities into configs_
  std::map<ThreadKey, ThreadRow> threads_;
  uint64_t calls_before_ = 0;
  bool has_times_ = false;
  bool has_modules_ = false;
  std::set<int> levels_;
  Totals totals_;
  std::vector<Totals> trace_totals_;  // side by side
  std::vector<Row> rows_;
  uint64_t rows_left_out_ = 0;
};

}  // namespace

absl::StatusOr<StatsBy> ParseStatsBy(std::string_view text) {
  std::vector<std::string> names;
  for (const Grouping& grouping : kGroupings) {
    if (text == grouping.name) return grouping.by;
    names.emplace_back(grouping.name);
  }
  return UnknownChoice("cannot group by", text, names);
}

absl::StatusOr<StatsFormat> ParseStatsFormat(std::string_view text) {
  static const std::vector<std::string> names = {"text", "json", "csv", "markdown"};
  const auto at = std::find(names.begin(), names.end(), text);
  if (at != names.end()) return static_cast<StatsFormat>(at - names.begin());
  return UnknownChoice("unknown format", text, names);
}

absl::StatusOr<StatsSort> ParseStatsSort(std::string_view text) {
  static const std::vector<std::string> names = {"calls", "configs", "time", "self", "name", "first"};
  const auto at = std::find(names.begin(), names.end(), text);
  if (at != names.end()) return static_cast<StatsSort>(at - names.begin());
  return UnknownChoice("cannot sort by", text, names);
}

absl::Status WriteStats(const std::vector<StatsTrace>& traces, const StatsOptions& options, std::ostream* out) {
  return StatsReport(traces, options, out).Run();
}

}  // namespace torchtrace
