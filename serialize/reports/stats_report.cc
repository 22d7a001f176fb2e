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
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "serialize/base/matching.h"
#include "serialize/base/saturating.h"
#include "serialize/base/text.h"
#include "serialize/configs/family.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/model/graph_calls.h"
#include "serialize/reports/memory_report.h"
#include "serialize/reports/report_table.h"
#include "serialize/reports/reports.h"
#include "serialize/reports/shapes.h"
#include "serialize/reports/stats_places.h"
#include "serialize/trace/launched_work.h"
#include "serialize/trace/live_memory.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

ordered_json DevicesJson(const MemoryTotals& totals) {
  const std::map<MemoryDevice, MemoryTotal> devices(totals.devices.begin(), totals.devices.end());
  ordered_json json = ordered_json::object();
  for (const auto& [device, memory] : devices) {
    json[DeviceName(device)] = {{"allocated_bytes", memory.allocated},
                                {"freed_bytes", memory.freed},
                                {"peak_bytes", memory.peak},
                                {"held_bytes", memory.held}};
  }
  return json;
}

// What a row shows for all traces together, or for one of them.
struct Cells {
  CallTotal total;
  uint64_t configs = 0;
  uint64_t apis = 0;
  CallCost cost = {};
  std::optional<int64_t> wall_ns = {};  // of a step
  bool divided = true;                  // among forward and backward; by module

  void Add(const CallTotal& of_config) {
    total.Add(of_config);
    ++configs;
  }
  // Of calls that cost the same; those that raised cost nothing.
  void AddCost(const CallTotal& of_config, const CallCost& of_a_call) {
    const auto calls = static_cast<double>(of_config.calls - of_config.raised);
    if (of_a_call.flops.has_value()) cost.flops = cost.flops.value_or(0) + *of_a_call.flops * calls;
    if (of_a_call.bytes.has_value()) cost.bytes = cost.bytes.value_or(0) + *of_a_call.bytes * calls;
  }
};

struct StatsRow {
  std::vector<ReportCell> labels;  // for programs
  std::string text_label;          // for people
  // For sorting by name: numbers by their value.
  std::optional<double> number;
  int level = 0;       // if rows are of one level
  size_t config = 0;   // a config of the row: index into configs_
  uint64_t order = 0;  // breaks ties
  Cells all;
  std::vector<Cells> traces;  // side by side
};

struct CostTotals {
  CostSum sum;
  std::set<std::pair<int, std::string_view>> lacking_apis;  // without a formula, with their levels

  void Add(const ConfigHead& head, const CostSum& cost) {
    sum.Add(cost);
    if (cost.lacking > 0) lacking_apis.insert({head.level, head.api});
  }
  void Add(const CostTotals& other) {
    sum.Add(other.sum);
    lacking_apis.insert(other.lacking_apis.begin(), other.lacking_apis.end());
  }
};

struct Totals {
  uint64_t calls = 0;
  uint64_t apis = 0;
  uint64_t configs = 0;
  int64_t self_time_ns = 0;
  bool timed = false;
  bool has_device = false, has_memory = false;
  int64_t device_ns = 0;
  CostTotals of_level = {}, cost = {};

  void Add(const Totals& other) {
    calls += other.calls;
    apis += other.apis;
    configs += other.configs;
    AddSaturating(other.self_time_ns, &self_time_ns);
    timed = timed || other.timed;
    has_device = has_device || other.has_device;
    has_memory = has_memory || other.has_memory;
    AddSaturating(other.device_ns, &device_ns);
    of_level.Add(other.of_level);
    cost.Add(other.cost);
  }
};
// For all traces together, and for each one side by side.
struct TotalsOfTraces {
  Totals all;
  std::vector<Totals> traces;
};

// Whether a call takes tensors, and whether some of them have elements: those on device meta, and fake ones, do not.
enum class Elements : uint8_t { kNone, kEmpty, kSome };

Elements ElementsIn(const Value& value) {
  if (value.tag == ValueTag::kTensor) return value.device == "meta" ? Elements::kEmpty : Elements::kSome;
  Elements all = Elements::kNone;
  for (const Value& item : value.items) all = std::max(all, ElementsIn(item));
  return all;
}

Elements ElementsIn(const Config& config) {
  Elements all = Elements::kNone;
  for (const Value& value : config.args) all = std::max(all, ElementsIn(value));
  for (const auto& [name, value] : config.kwargs) all = std::max(all, ElementsIn(value));
  return all;
}

// A config of the traces, coarsened; equal ones are added up.
struct GlobalConfig {
  std::string_view identity;
  ConfigHead head;
  uint32_t api = 0;  // equal for configs of one API and level
  uint32_t row = 0;  // index into rows_, if rows are not places
  ConfigCost cost = {};
  CallTotal all = {};
  std::vector<CallTotal> traces = {};  // side by side
};

struct Grouping {
  StatsBy by;
  const char* name;
  const char* list;    // the JSON member for the rows
  const char* title;   // of the label column
  bool label_last;     // long labels
  bool by_level;       // a row is of one level
  bool apis;           // shows how many APIs
  bool configs;        // shows how many configs
  bool of_one_trace;   // no row has calls of two traces
  const char* labels;  // the names of the labels
};
constexpr Grouping kGroupings[] = {
    {StatsBy::kApi, "api", "apis", "API", false, true, false, true, false, "api level"},
    {StatsBy::kConfig, "config", "configs", "config", true, true, false, false, false, "config api level"},
    {StatsBy::kFamily, "family", "families", "family", true, true, false, true, false, "family api level"},
    {StatsBy::kShapes, "shapes", "shapes", "shapes", true, true, false, true, false, "api sizes dtype level"},
    {StatsBy::kGraph, "graph", "graphs", "graph", true, true, false, false, false,
     "graph function file line what reason breaks"},
    {StatsBy::kKernel, "kernel", "kernels", "kernel", true, false, false, false, false, "kernel"},
    {StatsBy::kLevel, "level", "levels", "level", false, false, true, true, false, "level"},
    {StatsBy::kThread, "thread", "threads", "thread", false, false, true, true, true, "process log thread os_id name"},
    {StatsBy::kProcess, "process", "processes", "process", false, false, true, true, true, "process log ended"},
    {StatsBy::kRank, "rank", "ranks", "rank", false, false, true, true, false, "rank"},
    {StatsBy::kLabel, "label", "labels", "label", false, false, true, true, false, "label"},
    {StatsBy::kLine, "line", "lines", "line", true, false, true, true, false, "file line function module"},
    {StatsBy::kModule, "module", "modules", "module", true, false, true, true, false, "module class"},
    {StatsBy::kStep, "step", "steps", "step", false, false, true, true, false, "number step"},
    {StatsBy::kTag, "tag:NAME", "tags", "", false, false, true, true, false, "value"},
};

// Of a graph.
constexpr size_t kReasonLabel = 5;
constexpr size_t kBreaksLabel = 6;

constexpr std::string_view kTagPrefix = "tag:";

class StatsReport {
 public:
  StatsReport(const std::vector<StatsTrace>& traces, const StatsOptions& options, std::ostream* out)
      : traces_(traces),
        options_(options),
        out_(out),
        by_(options.grouping.by),
        grouping_(*std::find_if(std::begin(kGroupings), std::end(kGroupings),
                                [this](const Grouping& grouping) { return grouping.by == by_; })),
        side_by_side_(traces.size() > 1 && !options.sum && !grouping_.of_one_trace),
        reads_(options.times || options.numbers || options.ChoosesCalls() || by_place() || by_ == StatsBy::kShapes ||
               options.sort == StatsSort::kFirst || ShowsCosts(options)),
        costs_(ShowsCosts(options)),
        sorts_by_time_(options.times &&
                       (options.sort.has_value() ? options.sort == StatsSort::kTime || options.sort == StatsSort::kSelf
                                                 : by_ == StatsBy::kShapes)),
        memory_(options.times && std::any_of(traces.begin(), traces.end(),
                                             [](const StatsTrace& each) { return HasMemory(*each.trace); })),
        filter_(options.filter),
        places_(options.grouping, traces) {
    if (costs_) shape_rules_ = options.shape_rules != nullptr ? *options.shape_rules : ShapeRules::BuiltIn();
  }

  absl::Status Run() {
    for (size_t i = 0; i < traces_.size(); ++i) {
      if (by_ == StatsBy::kLine && !HasStacks(*traces_[i].trace)) {
        return NothingLabelled(LabelBy::kLine, traces_[i].name + " has");
      }
      if (options_.numbers && !HasNumbers(*traces_[i].trace)) {
        return absl::FailedPreconditionError(
            absl::StrCat(traces_[i].name, " has no numbers of tensors: record them with torchtrace run --numbers"));
      }
      if (absl::Status s = Add(i); !s.ok()) return s;
    }
    if (by_place()) {
      if (absl::Status s = places_.Finish(); !s.ok()) return s;
    }
    if (by_ == StatsBy::kGraph && rows_.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(traces_.size() == 1 ? traces_[0].name + " has" : std::string("the traces have"),
                       " no graphs of torch.compile: the program compiled nothing, or its calls are filtered out"));
    }
    const bool by_time = (by_ == StatsBy::kShapes || by_ == StatsBy::kGraph) && has_times_;
    sort_ = options_.sort.value_or(by_time                 ? StatsSort::kTime
                                   : by_ == StatsBy::kStep ? StatsSort::kName
                                                           : StatsSort::kCalls);
    if (sorts_by_time_ && with_elements_ < without_elements_) {
      times_mean_nothing_ = true;
      if (!options_.sort.has_value()) sort_ = HasFlops() ? StatsSort::kFlops : StatsSort::kCalls;
    }
    if (!has_times_ && (sort_ == StatsSort::kTime || sort_ == StatsSort::kSelf)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "cannot sort by time: ",
          options_.times ? absl::StrCat(traces_.size() == 1 ? traces_[0].name + " has" : std::string("the traces have"),
                                        " no times")
                         : std::string("--no-times leaves them out")));
    }
    if (sort_ == StatsSort::kDevice && !has_device_) {
      std::string why;
      for (size_t i = 0; i < traces_.size() && why.empty(); ++i) why = WhyNotSeen(*traces_[i].trace, "device times");
      return absl::InvalidArgumentError(
          absl::StrCat("cannot sort by device time: ", !options_.times ? "--no-times leaves it out"
                                                       : why.empty()   ? "record it with torchtrace run --device-times"
                                                                       : why));
    }
    if (sort_ == StatsSort::kMemory && !memory_) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot sort by memory: ",
                       options_.times ? "record it with torchtrace run --memory" : "--no-times leaves it out"));
    }
    MakeRows();
    Sort();
    return Write();
  }

  // Remarks about what is missing, and times that mean nothing.
  std::vector<std::string> Notes() const {
    std::vector<std::string> notes = places_.Notes();
    if (times_mean_nothing_) {
      notes.push_back(
          absl::StrCat("most calls take meta or fake tensors, which hold nothing: their times are Python's "
                       "and PyTorch's own",
                       options_.sort.has_value()    ? ""
                       : sort_ == StatsSort::kFlops ? "; sorted by FLOP instead"
                                                    : "; sorted by calls instead"));
    }
    for (const auto& [trace, calls] : untimed_) {
      if (!has_times_) break;
      notes.push_back(absl::StrCat(traces_[trace].name, ": ", Counted(calls, "call has", "calls have"),
                                   " no times, and ", calls == 1 ? "is" : "are", " left out of their sums"));
    }
    for (const StatsTrace& each : traces_) {
      if (!memory_) break;
      for (const std::string& text : NotSeen(*each.trace, "memory ")) {
        notes.push_back(absl::StrCat(each.name, ": not seen: ", text));
      }
    }
    return notes;
  }

 private:
  // The totals of a place in all traces or in one. Places may be many, as steps are.
  struct Tally {
    CallTotal total;
    std::vector<uint32_t> configs;  // indices into configs_, ascending
  };
  struct PlaceRow {
    Tally all;
    std::vector<Tally> traces;  // side by side
  };

  static bool HasNumbers(const Trace& trace) {
    const std::vector<ProcessInfo>& processes = trace.processes();
    return std::any_of(processes.begin(), processes.end(),
                       [](const ProcessInfo& process) { return process.known.numbers; });
  }

  bool by_place() const { return StatsPlaces::Has(by_); }

  // What sizes and modules are asked for. Other groupings show costs if somebody asks.
  static bool ShowsCosts(const StatsOptions& options) {
    const StatsBy by = options.grouping.by;
    return by == StatsBy::kShapes || by == StatsBy::kModule || options.sort == StatsSort::kFlops ||
           options.sort == StatsSort::kBytes || options.shape_rules != nullptr;
  }

  bool HasFlops() const {
    return std::any_of(configs_.begin(), configs_.end(),
                       [](const GlobalConfig& config) { return config.all.cost.cost.flops.value_or(0) > 0; });
  }

  // Counts calls by whether they take tensors with elements.
  void CountElements(const Trace& trace, const TraceTotals& totals) {
    std::vector<bool> fake(totals.configs.size()), real(totals.configs.size());  // some variant is, another is not
    for (VariantId variant = 0; variant < trace.variant_count(); ++variant) {
      const ConfigId config = trace.config_of(variant);
      if (config >= fake.size()) continue;
      const bool is_fake = trace.facets(variant).find("FakeTensor") != std::string_view::npos;
      (is_fake ? fake : real)[config] = true;
    }
    for (ConfigId id = 0; id < totals.configs.size(); ++id) {
      const uint64_t calls = totals.configs[id].calls;
      if (calls == 0) continue;
      const Elements elements = ElementsIn(ReadableConfig(trace.identity(id)));
      if (elements == Elements::kNone) continue;
      const bool without = elements == Elements::kEmpty || (fake[id] && !real[id]);
      (without ? without_elements_ : with_elements_) += calls;
    }
  }

  bool Accepts(const ConfigHead& head) {
    const std::vector<int>& levels = options_.levels;
    return (levels.empty() || std::find(levels.begin(), levels.end(), head.level) != levels.end()) &&
           filter_.Accepts(head.api);
  }

  absl::Status Add(size_t number) {
    Trace* const trace = traces_[number].trace;
    std::vector<size_t> ids;  // of the accepted configs, into configs_
    SumOptions sums;
    sums.row = [&](ConfigId id) {
      const std::string_view identity = trace->identity(id);
      if (!Accepts(ReadConfigHead(identity))) return kNoRow;
      ids.resize(std::max<size_t>(ids.size(), id + size_t{1}));
      ids[id] = FindConfig(identity);
      return configs_[ids[id]].row;
    };
    if (by_place()) sums.place = places_.Of(number);
    sums.intervals = StatsPlaces::AreIntervals(by_);
    // The second step of a name comes after the first one.
    sums.in_order = by_ == StatsBy::kModule || by_ == StatsBy::kStep;
    if (costs_) {
      sums.cost = [&](ConfigId id) { return configs_[ids[id]].cost; };
    }
    if (options_.ChoosesCalls()) sums.selection = &options_;
    sums.durations = options_.all_times;
    sums.numbers = options_.numbers;
    sums.device = options_.times && HasDeviceTimes(*trace);
    has_device_ = has_device_ || sums.device;
    sums.memory = memory_;
    sums.trace = number;
    absl::StatusOr<TraceTotals> totals = reads_ ? SumCalls(trace, sums) : CountConfigs(trace, sums);
    if (!totals.ok()) return totals.status();
    has_times_ = has_times_ || (options_.times && totals->has_times);
    device_ns_.push_back(totals->device_ns);
    if (totals->untimed > 0) untimed_.emplace_back(number, totals->untimed);
    if (sorts_by_time_) CountElements(*trace, *totals);
    for (ConfigId id = 0; id < totals->configs.size(); ++id) {
      const CallTotal& total = totals->configs[id];
      if (total.calls == 0) continue;
      GlobalConfig& config = configs_[ids[id]];
      config.all.Add(total);
      if (!side_by_side_) continue;
      config.traces.resize(traces_.size());
      config.traces[number].Add(total);
    }
    place_rows_.resize(std::max(place_rows_.size(), totals->places.size()));
    for (PlaceId place = 0; place < totals->places.size(); ++place) {
      const PlaceTotal& total = totals->places[place];
      if (total.total.calls == 0) continue;
      PlaceRow& row = place_rows_[place];
      AddToTally(total, ids, &row.all);
      if (side_by_side_) {
        row.traces.resize(traces_.size());
        AddToTally(total, ids, &row.traces[number]);
      }
      totals->places[place].configs = {};
    }
    return absl::OkStatus();
  }

  void AddToTally(const PlaceTotal& total, const std::vector<size_t>& ids, Tally* tally) const {
    tally->total.Add(total.total);
    std::vector<uint32_t> configs(tally->configs);
    for (const ConfigId id : total.configs) configs.push_back(static_cast<uint32_t>(ids[id]));
    std::sort(configs.begin(), configs.end());
    tally->configs.assign(configs.begin(), std::unique(configs.begin(), configs.end()));
  }

  Cells CellsOf(const Tally& tally) const {
    std::vector<uint32_t> apis;
    for (const uint32_t config : tally.configs) apis.push_back(configs_[config].api);
    std::sort(apis.begin(), apis.end());
    const auto count = static_cast<uint64_t>(std::unique(apis.begin(), apis.end()) - apis.begin());
    return {tally.total, tally.configs.size(), count, tally.total.cost.cost};
  }

  size_t FindConfig(std::string_view identity) {
    if (!options_.ignore.empty()) {
      std::string coarse = options_.ignore.Apply(identity);
      const auto known = config_index_.find(coarse);
      if (known == config_index_.end()) {
        identity = coarse_.emplace_back(std::move(coarse));
      } else {
        identity = known->first;
      }
    }
    const auto [at, fresh] = config_index_.try_emplace(identity, configs_.size());
    if (fresh) {
      GlobalConfig& config = configs_.emplace_back(GlobalConfig{identity, ReadConfigHead(identity)});
      config.api = api_index_.try_emplace({config.head.level, config.head.api}, api_index_.size()).first->second;
      CallShapes shapes;
      if (costs_) shapes = shape_rules_.Find(ReadableConfig(identity));
      config.cost = shapes.config_cost();
      if (!by_place()) config.row = FindRow(at->second, shapes, config);
    }
    return at->second;
  }

  static std::string GraphKey(GraphCallKind kind, const GraphCall& call) {
    return absl::StrCat(static_cast<int>(kind), " ", call.id, " ", call.function);
  }

  // `1/0 f at train.py:3, backward run`
  static std::string FormatGraph(const GraphCall& call) {
    std::string text = absl::StrCat(call.id, call.function.empty() ? "" : " ", call.function);
    if (!call.file.empty()) absl::StrAppend(&text, " at ", FormatPlace(call));
    if (call.kind != GraphCallKind::kRun) text.append(", ").append(GraphCallName(call.kind));
    return PlainLine(text);
  }

  static std::string FormatPlace(const GraphCall& call) {
    return absl::StrCat(call.file.substr(call.file.rfind('/') + 1), ":", call.line);
  }

  // Adds to a compilation why it was made, or a break of its graph.
  static void AddReason(const GraphCall& call, StatsRow* row) {
    const std::string first_line = call.reason.substr(0, call.reason.find('\n'));
    if (call.kind == GraphCallKind::kRecompiled) {
      row->labels[kReasonLabel] = call.reason;
      absl::StrAppend(&row->text_label, ": ", PlainLine(first_line));
      return;
    }
    row->labels[kBreaksLabel].value.push_back(
        ordered_json{{"file", call.file}, {"line", call.line}, {"reason", call.reason}});
    absl::StrAppend(&row->text_label, "; break at ", PlainLine(FormatPlace(call)), ": ", PlainLine(first_line));
  }

  // The row of a new config; kNoRow: none.
  uint32_t FindRow(size_t index, const CallShapes& shapes, const GlobalConfig& config) {
    const auto [level, api] = config.head;
    std::string key = absl::StrCat(level, " ");
    StatsRow row;
    row.level = level;
    row.config = index;
    switch (by_) {
      case StatsBy::kApi:
        key += api;
        row.text_label = FormatApi(api);
        row.labels = {std::string(api), level};
        row.order = static_cast<uint64_t>(level);
        break;
      case StatsBy::kConfig:
        key = std::to_string(index);
        row.order = index;
        break;
      case StatsBy::kFamily: {
        const absl::StatusOr<Config> parsed = ParseConfig(config.identity);
        // A malformed config is a separate family.
        key += parsed.ok() ? FindFamily(*parsed).key : std::string(config.identity);
        row.order = index;
        break;
      }
      case StatsBy::kShapes: {
        row.text_label = absl::StrCat(FormatApi(api), shapes.sizes.empty() ? "" : " ", FormatSizes(shapes.sizes),
                                      shapes.dtype.empty() ? "" : " ", shapes.dtype);
        row.labels = {std::string(api), {SizesJson(shapes.sizes), FormatSizes(shapes.sizes)}, shapes.dtype, level};
        key += row.text_label;
        row.order = index;
        break;
      }
      case StatsBy::kGraph: {
        const GraphCall call = ReadGraphCall(config.identity);
        if (call.kind == GraphCallKind::kNone) return kNoRow;
        if (call.kind == GraphCallKind::kRecompiled || call.kind == GraphCallKind::kBreak) {
          const auto compilation = row_index_.find(GraphKey(GraphCallKind::kCompilation, call));
          if (compilation != row_index_.end()) AddReason(call, &rows_[compilation->second]);
          return kNoRow;
        }
        key = GraphKey(call.kind, call);
        row.text_label = FormatGraph(call);
        row.labels = {call.id,
                      call.function,
                      call.file,
                      call.line,
                      std::string(GraphCallName(call.kind)),
                      ReportCell(nullptr, ""),
                      ordered_json::array()};
        row.order = index;
        break;
      }
      default:  // kLevel
        row.text_label = std::to_string(level);
        row.labels = {level};
        row.number = level;
        break;
    }
    const auto [at, fresh] = row_index_.try_emplace(std::move(key), static_cast<uint32_t>(rows_.size()));
    if (fresh) rows_.push_back(std::move(row));
    return at->second;
  }

  void MakeRows() {
    const size_t columns = side_by_side_ ? traces_.size() : 0;
    std::map<std::pair<int, std::string_view>, std::vector<bool>> apis;  // whether each trace calls them
    const auto totals_of = [&](int level) -> TotalsOfTraces& {
      TotalsOfTraces& totals = levels_[level];
      totals.traces.resize(columns);
      return totals;
    };
    const auto add = [this](const GlobalConfig& config, const CallTotal& total, Totals* totals) {
      for (const auto& [device, memory] : total.memory.devices) memory_devices_.insert(device);
      totals->calls += total.calls;
      ++totals->configs;
      AddSaturating(total.self_time_ns, &totals->self_time_ns);
      totals->timed = totals->timed || total.timed;
      totals->has_device = totals->has_device || total.has_device;
      totals->has_memory = totals->has_memory || total.has_memory;
      AddSaturating(total.outer_device_ns, &totals->device_ns);
      totals->of_level.Add(config.head, total.cost_of_level);
      totals->cost.Add(config.head, total.cost);
    };
    // Rows of one API show what each of their calls costs, others work that counts once.
    const auto add_to_row = [this](const GlobalConfig& config, const CallTotal& total, Cells* cells) {
      cells->Add(total);
      if (by_ != StatsBy::kLevel) cells->AddCost(total, config.cost.cost);
    };
    for (const GlobalConfig& config : configs_) {
      if (config.all.calls == 0) continue;
      TotalsOfTraces& totals = totals_of(config.head.level);
      add(config, config.all, &totals.all);
      StatsRow* const row = by_place() ? nullptr : &rows_[config.row];
      if (row != nullptr) add_to_row(config, config.all, &row->all);
      if (row != nullptr) row->traces.resize(columns);
      std::vector<bool>& called = apis[{config.head.level, config.head.api}];
      called.resize(columns);
      for (size_t i = 0; i < columns; ++i) {
        if (config.traces[i].calls == 0) continue;
        called[i] = true;
        add(config, config.traces[i], &totals.traces[i]);
        if (row != nullptr) add_to_row(config, config.traces[i], &row->traces[i]);
      }
    }
    for (const auto& [api, called] : apis) {
      TotalsOfTraces& totals = totals_of(api.first);
      ++totals.all.apis;
      for (size_t i = 0; i < columns; ++i) totals.traces[i].apis += called[i] ? 1 : 0;
    }
    totals_.traces.resize(columns);
    for (const auto& [level, totals] : levels_) {
      totals_.all.Add(totals.all);
      for (size_t i = 0; i < columns; ++i) totals_.traces[i].Add(totals.traces[i]);
    }
    // Several levels count the same work.
    totals_.all.device_ns = 0;
    for (const int64_t ns : device_ns_) AddSaturating(ns, &totals_.all.device_ns);
    for (size_t i = 0; i < columns; ++i) totals_.traces[i].device_ns = device_ns_[i];
    if (by_ == StatsBy::kLevel) {
      for (StatsRow& row : rows_) {
        if (row.all.total.calls == 0) continue;
        const TotalsOfTraces& of_level = levels_[row.level];
        row.all.apis = of_level.all.apis;
        row.all.cost = of_level.all.of_level.sum.cost;
        for (size_t i = 0; i < columns; ++i) {
          row.traces[i].apis = of_level.traces[i].apis;
          row.traces[i].cost = of_level.traces[i].of_level.sum.cost;
        }
      }
    }
    rows_.reserve(rows_.size() + place_rows_.size());
    for (PlaceId place = 0; place < place_rows_.size(); ++place) {
      PlaceRow& from = place_rows_[place];
      const StatsPlace& labels = places_.all()[place];
      StatsRow row;
      row.labels = labels.labels;
      row.text_label = labels.text;
      row.number = labels.number;
      row.order = place;
      row.all = CellsOf(from.all);
      row.all.wall_ns = labels.wall_ns;
      from.traces.resize(columns);
      row.all.divided = !labels.optimizer;
      for (size_t i = 0; i < columns; ++i) {
        row.traces.push_back(CellsOf(from.traces[i]));
        row.traces.back().divided = !labels.optimizer;
        if (const auto wall = labels.walls_ns.find(i); wall != labels.walls_ns.end()) {
          row.traces.back().wall_ns = wall->second;
        }
      }
      rows_.push_back(std::move(row));
      from = {};  // there may be many
    }
    std::erase_if(rows_, [](const StatsRow& row) { return row.all.total.calls == 0; });
  }

  void Sort() {
    // Long labels are made only for the rows that are shown, unless the order depends on them.
    if (sort_ == StatsSort::kName) LabelConfigs();
    const auto amount = [this](const StatsRow& row) -> double {
      switch (sort_) {
        case StatsSort::kCalls:
          return static_cast<double>(row.all.total.calls);
        case StatsSort::kConfigs:
          return static_cast<double>(row.all.configs);
        case StatsSort::kTime:
          return static_cast<double>(row.all.total.time_ns);
        case StatsSort::kSelf:
          return static_cast<double>(row.all.total.self_time_ns);
        case StatsSort::kDevice:
          return static_cast<double>(row.all.total.device_ns);
        case StatsSort::kMemory:
          return static_cast<double>(row.all.total.memory.All().allocated);
        case StatsSort::kFlops:
          return row.all.cost.flops.value_or(-1);
        case StatsSort::kBytes:
          return row.all.cost.bytes.value_or(-1);
        default:
          return 0;
      }
    };
    std::sort(rows_.begin(), rows_.end(), [&](const StatsRow& a, const StatsRow& b) {
      if (grouping_.by_level && a.level != b.level) return a.level < b.level;
      if (const double left = amount(a), right = amount(b); left != right) return left > right;
      if (sort_ == StatsSort::kName) {
        // Numbers before texts, and by their value.
        if (a.number.has_value() != b.number.has_value()) return a.number.has_value();
        if (a.number != b.number) return a.number < b.number;
        if (a.text_label != b.text_label) return a.text_label < b.text_label;
      }
      return std::tie(a.all.total.first, a.order) < std::tie(b.all.total.first, b.order);
    });
    // One table, or one for each level.
    const uint64_t top = options_.top.value_or(
        IsForPeople(options_.format) ? RowsOnAScreen(grouping_.by_level ? levels_.size() : 1, options_.screen.lines)
                                     : 0);
    std::vector<StatsRow> shown;
    for (size_t begin = 0, end = 0; begin < rows_.size(); begin = end) {
      while (end < rows_.size() && (!grouping_.by_level || rows_[end].level == rows_[begin].level)) ++end;
      const size_t count = top > 0 ? std::min<size_t>(top, end - begin) : end - begin;
      tables_.push_back({rows_[begin].level, shown.size(), shown.size() + count, end - begin - count});
      std::move(rows_.begin() + static_cast<ptrdiff_t>(begin), rows_.begin() + static_cast<ptrdiff_t>(begin + count),
                std::back_inserter(shown));
    }
    if (tables_.empty()) tables_.push_back({});
    rows_ = std::move(shown);
    if (sort_ != StatsSort::kName) LabelConfigs();
  }

  void LabelConfigs() {
    if (by_ != StatsBy::kConfig && by_ != StatsBy::kFamily) return;
    for (StatsRow& row : rows_) {
      const GlobalConfig& config = configs_[row.config];
      row.text_label = ConfigText(config.identity);
      if (by_ == StatsBy::kFamily) {
        if (const absl::StatusOr<Config> parsed = ParseConfig(config.identity); parsed.ok()) {
          row.text_label = FormatFamily(*parsed);
        }
      }
      row.labels = {row.text_label, std::string(config.head.api), config.head.level};
    }
  }

  // A trace without calls lacks no times.
  bool HasTimes(const Totals& totals) const { return has_times_ && (totals.timed || totals.calls == 0); }
  static bool HasDevice(const Totals& totals) { return totals.has_device || totals.calls == 0; }

  std::string CallsLine(const Totals& totals, const CostTotals& cost) const {
    const double flops = cost.sum.cost.flops.value_or(0);
    return absl::StrCat(
        Counted(totals.calls, "call", "calls"), " of ", Counted(totals.apis, "API", "APIs"), " in ",
        Counted(totals.configs, "config", "configs"),
        traces_.size() > 1 ? absl::StrCat(" in ", Counted(traces_.size(), "trace", "traces")) : "",
        HasTimes(totals) && !side_by_side_ ? absl::StrCat(", self time ", FormatDuration(totals.self_time_ns)) : "",
        has_device_ && !side_by_side_ ? absl::StrCat(", device time ", FormatDuration(totals.device_ns)) : "",
        flops > 0 && !side_by_side_ ? absl::StrCat(", ", FormatAmount(flops), "FLOP") : "",
        side_by_side_ ? "" : WithoutFormula(cost));
  }

  static std::string WithoutFormula(const CostTotals& totals) {
    if (totals.sum.lacking == 0) return "";
    constexpr size_t kMostNames = 3;
    std::vector<std::string> names;
    for (const auto& [level, api] : totals.lacking_apis) {
      if (names.size() < kMostNames) names.push_back(FormatApi(api));
    }
    if (totals.lacking_apis.size() > names.size()) names.emplace_back("...");
    return absl::StrCat("; ", Counted(totals.sum.lacking, "call", "calls"), " of ",
                        Counted(totals.lacking_apis.size(), "API", "APIs"), totals.sum.lacking == 1 ? " has" : " have",
                        " no formula: ", absl::StrJoin(names, ", "));
  }

  absl::Status Write() const {
    ReportWriter report(options_.format, out_, options_.screen, /*rows_fit=*/!options_.top.has_value());
    report.AddLine(CallsLine(totals_.all, totals_.all.cost));
    AddTotals(&report);
    if (by_ == StatsBy::kStep && has_times_) AddStepSummary(&report);
    for (const Table& table : tables_) {
      if (tables_.size() > 1) {
        report.AddLine(absl::StrCat("\nlevel ", table.level, ": ",
                                    CallsLine(levels_.at(table.level).all, levels_.at(table.level).all.of_level)));
      }
      report.BeginTable(grouping_.list, Columns());
      for (size_t i = table.begin; i < table.end; ++i) AddRow(rows_[i], &report);
      report.EndTable(table.left_out);
    }
    return report.Finish("the statistics");
  }

  void AddTotals(ReportWriter* report) const {
    const auto members = [this](const Totals& totals, const CostTotals& cost) {
      ordered_json json = {
          {"total_calls", totals.calls}, {"total_apis", totals.apis}, {"total_configs", totals.configs}};
      if (has_times_) {
        json["total_self_time_ns"] = HasTimes(totals) ? ordered_json(totals.self_time_ns) : ordered_json(nullptr);
      }
      if (has_device_) {
        json["total_device_ns"] = HasDevice(totals) ? ordered_json(totals.device_ns) : ordered_json(nullptr);
      }
      if (costs_) {
        json["total_flops"] = AmountJson(cost.sum.cost.flops.value_or(0));
        json["total_bytes"] = AmountJson(cost.sum.cost.bytes.value_or(0));
        json["total_calls_without_formula"] = cost.sum.lacking;
      }
      return json;
    };
    report->AddMembers(members(totals_.all, totals_.all.cost));
    if (by_ == StatsBy::kTag) report->AddMembers({{"tag", options_.grouping.tag}});
    ordered_json lists = ordered_json::object();
    for (size_t i = 0; i < totals_.traces.size(); ++i) {
      ordered_json trace = {{"trace", traces_[i].name}};
      trace.update(members(totals_.traces[i], totals_.traces[i].cost));
      lists["traces"].push_back(std::move(trace));
    }
    if (grouping_.by_level) {
      lists["by_level"] = ordered_json::array();
      for (const auto& [level, totals] : levels_) {
        ordered_json of_level = {{"level", level}};
        of_level.update(members(totals.all, totals.all.of_level));
        lists["by_level"].push_back(std::move(of_level));
      }
    }
    report->AddMembers(lists);
  }

  // Of all rows, also those that aren't shown.
  void AddStepSummary(ReportWriter* report) const {
    const StatsPlaces::StepWalls walls = places_.WallsOfSteps(options_.skip_steps);
    std::vector<int64_t> walls_ns;
    for (const auto& [place, ns] : walls.ns) walls_ns.push_back(ns);
    const StepSummary summary = SummarizeSteps(walls_ns);
    if (summary.steps == 0) return;
    constexpr size_t kMostOdd = 5;
    std::vector<std::string> odd;
    ordered_json json_odd = ordered_json::array();
    for (const auto& [place, step] : walls.long_ones) {
      const std::string& name = places_.all()[place].text;
      if (odd.size() < kMostOdd)
        odd.push_back(
            absl::StrCat(name, " (", FormatDuration(step.ns), ", x", absl::StrFormat("%.1f", step.times), ")"));
      json_odd.push_back({{"step", name}, {"wall_ns", step.ns}});
    }
    if (walls.long_ones.size() > kMostOdd) odd.emplace_back("...");
    report->AddLine(absl::StrCat(Counted(summary.steps, "step", "steps"), ": mean ", FormatDuration(summary.mean_ns),
                                 ", p50 ", FormatDuration(summary.p50_ns), ", p90 ", FormatDuration(summary.p90_ns),
                                 ", p99 ", FormatDuration(summary.p99_ns),
                                 odd.empty() ? "" : absl::StrCat("; long: step ", absl::StrJoin(odd, ", "))));
    report->AddMembers({{"step_times",
                         {{"steps", summary.steps},
                          {"mean_ns", summary.mean_ns},
                          {"p50_ns", summary.p50_ns},
                          {"p90_ns", summary.p90_ns},
                          {"p99_ns", summary.p99_ns},
                          {"long", std::move(json_odd)}}}});
  }

  void AddRow(const StatsRow& row, ReportWriter* report) const {
    const TotalsOfTraces& totals = grouping_.by_level ? levels_.at(row.level) : totals_;
    std::vector<ReportCell> cells;
    if (!grouping_.label_last) cells.emplace_back(row.text_label);
    cells.insert(cells.end(), row.labels.begin(), row.labels.end());
    const auto add = [&](const char*, const char*, ReportCell cell) { cells.push_back(std::move(cell)); };
    AddNumbers(row.all, totals.all, add);
    for (size_t i = 0; i < row.traces.size(); ++i) AddNumbers(row.traces[i], totals.traces[i], add);
    if (grouping_.label_last) cells.emplace_back(row.text_label);
    report->AddRow(cells);
  }

  std::vector<ReportColumn> Columns() const {
    std::vector<ReportColumn> columns;
    const ReportColumn label{by_ == StatsBy::kTag ? FormatApi(options_.grouping.tag) : grouping_.title,
                             "",
                             "",
                             TextTable::kLeft,
                             nullptr,
                             /*clips=*/true};
    if (!grouping_.label_last) columns.push_back(label);
    if (grouping_.of_one_trace && traces_.size() > 1) columns.push_back({"", "trace", "trace"});
    for (const absl::string_view label_name : absl::StrSplit(grouping_.labels, ' ')) {
      columns.push_back({"", std::string(label_name), std::string(label_name)});
    }
    const auto add_numbers = [&](bool shown, const std::string* trace) {
      AddNumbers(Cells(), Totals(), [&](const char* title, const char* name, const ReportCell&) {
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

  // Calls `add` with each number of all traces or of one, and its names for people and programs. Side by side there is
  // less room: only the time that rows are sorted by. Sizes take room too.
  template <typename Add>
  void AddNumbers(const Cells& cells, const Totals& totals, const Add& add) const {
    const bool shapes = by_ == StatsBy::kShapes;
    const bool self = !side_by_side_ || sort_ == StatsSort::kSelf;
    const auto alone = [this](const char* title) { return side_by_side_ ? "" : title; };
    const ReportCell percent = PercentCell(cells.total.calls, totals.calls);
    if (by_ == StatsBy::kStep && has_times_) {
      add("wall", "wall_ns", cells.wall_ns.has_value() ? TimeCell(*cells.wall_ns) : ReportCell(nullptr, "-"));
    }
    add("calls", "calls", cells.total.calls);
    add(shapes ? "" : alone("calls %"), "", percent);
    if (grouping_.apis) add("APIs", "apis", cells.apis);
    if (grouping_.configs) add(shapes ? "" : "configs", "configs", cells.configs);
    add("", "percent", percent);
    if (has_times_) {
      // Calls without times have no sum.
      const bool timed = cells.total.timed || (cells.total.calls == 0 && HasTimes(totals));
      const auto add_timed = [&](const char* title, const char* name, const ReportCell& cell) {
        add(title, name, timed ? cell : ReportCell(nullptr, "-"));
      };
      add_timed(side_by_side_ && self ? "" : "time", "time_ns", TimeCell(cells.total.time_ns));
      const bool modules = by_ == StatsBy::kModule;
      if (modules) {
        const auto add_part = [&](const char* title, const char* name, int64_t ns) {
          add_timed(alone(title), name, cells.divided ? TimeCell(ns) : ReportCell(nullptr, "-"));
        };
        add_part("forward", "forward_ns", cells.total.self_time_ns - cells.total.backward_ns);
        add_part("backward", "backward_ns", cells.total.backward_ns);
      }
      add_timed(!self ? "" : modules ? "total" : "self time", "self_time_ns", TimeCell(cells.total.self_time_ns));
      add_timed(alone(modules ? "total %" : "self %"), "self_percent",
                PercentCell(static_cast<uint64_t>(std::max<int64_t>(cells.total.self_time_ns, 0)),
                            static_cast<uint64_t>(std::max<int64_t>(totals.self_time_ns, 0))));
    }
    const auto add_known = [&](bool known, const char* title, const char* name, const ReportCell& cell) {
      add(title, name, known ? cell : ReportCell(nullptr, "-"));
    };
    if (has_device_) {
      const bool known = cells.total.has_device || (cells.total.calls == 0 && HasDevice(totals));
      add_known(known, "device", "device_ns", TimeCell(cells.total.device_ns));
      add_known(known, alone("device %"), "device_percent",
                PercentCell(static_cast<uint64_t>(cells.total.device_ns), static_cast<uint64_t>(totals.device_ns)));
    }
    if (costs_) {
      const auto amount = [](const std::optional<double>& sum) {
        return sum.has_value() ? ReportCell(AmountJson(*sum), FormatAmount(*sum)) : ReportCell(nullptr, "-");
      };
      // People see no empty columns.
      const bool any = shapes || totals_.all.cost.sum.cost.bytes.has_value() || options_.shape_rules != nullptr;
      add(any ? alone("FLOP") : "", "flops", amount(cells.cost.flops));
      add(any ? alone("bytes") : "", "bytes", amount(cells.cost.bytes));
      // What devices achieved.
      const auto add_rate = [&](const char* title, const char* name, const std::optional<double>& sum, double unit) {
        const int64_t ns = cells.total.device_ns;
        const double rate = ns > 0 ? sum.value_or(0) * 1e9 / static_cast<double>(ns) : 0;
        add(alone(title), name,
            rate > 0 ? ReportCell(rate, absl::StrFormat("%.4g", rate / unit)) : ReportCell(nullptr, "-"));
      };
      if (shapes && has_device_) {
        add_rate("TFLOP/s", "flops_per_s", cells.cost.flops, 1e12);
        add_rate("GB/s", "bytes_per_s", cells.cost.bytes, 1e9);
      }
    }
    if (options_.all_times && has_times_) {
      const Durations& durations = cells.total.durations;
      const auto ended = static_cast<int64_t>(std::max<uint64_t>(durations.calls(), 1));
      const auto add_time = [&](const char* title, const char* name, int64_t ns) {
        add(alone(title), name, durations.calls() == 0 ? ReportCell(nullptr, "-") : TimeCell(ns));
      };
      add_time("mean", "mean_ns", cells.total.time_ns / ended);
      add_time("min", "min_ns", durations.least_ns());
      add_time("p50", "p50_ns", durations.Percentile(50));
      add_time("p99", "p99_ns", durations.Percentile(99));
      add_time("max", "max_ns", durations.most_ns());
    }
    if (options_.numbers) {
      const NumberExtremes& numbers = cells.total.numbers;
      add_known(numbers.finite(), "least", "least", NumberCell(numbers.least));
      add_known(numbers.finite(), "most", "most", NumberCell(numbers.most));
      add_known(numbers.finite(), "norm", "largest_norm", NumberCell(numbers.norm));
      add_known(numbers.calls != 0, "nan calls", "calls_with_nan", numbers.calls_with_nan);
      add_known(numbers.calls != 0, "inf calls", "calls_with_inf", numbers.calls_with_inf);
    }
    if (memory_) {
      const MemoryTotal memory = cells.total.memory.All();
      const bool known = cells.total.has_memory || (cells.total.calls == 0 && (totals.has_memory || totals.calls == 0));
      const auto add_bytes = [&](const char* title, const char* name, uint64_t bytes) {
        add_known(known, sort_ == StatsSort::kMemory ? title : alone(title), name,
                  ReportCell(bytes, FormatAmount(static_cast<double>(bytes))));
      };
      add_bytes("allocated", "allocated_bytes", memory.allocated);
      add_bytes("freed", "freed_bytes", memory.freed);
      add_bytes("peak", "peak_bytes", memory.peak);
      add_bytes("held", "held_bytes", memory.held);
      if (memory_devices_.size() > 1) add_known(known, "", "devices", ReportCell(DevicesJson(cells.total.memory), ""));
    }
    if (options_.times) add("", "raised", cells.total.raised);
  }

  struct Table {
    int level = 0;
    size_t begin = 0, end = 0;  // of rows_
    uint64_t left_out = 0;
  };

  const std::vector<StatsTrace>& traces_;
  const StatsOptions& options_;
  std::ostream* const out_;
  const StatsBy by_;
  const Grouping& grouping_;
  const bool side_by_side_;
  const bool reads_;  // false: only counts
  const bool costs_;  // shows FLOPs and bytes
  const bool sorts_by_time_;
  const bool memory_;  // some trace has it
  std::set<MemoryDevice> memory_devices_;
  GlobMemo filter_;
  StatsPlaces places_;
  ShapeRules shape_rules_;
  std::vector<PlaceRow> place_rows_;  // by PlaceId
  std::vector<GlobalConfig> configs_;
  std::deque<std::string> coarse_;                                             // owns coarsened identities
  absl::flat_hash_map<std::string_view, size_t> config_index_;                 // identities into configs_
  absl::flat_hash_map<std::pair<int, std::string_view>, uint32_t> api_index_;  // GlobalConfig::api
  absl::flat_hash_map<std::string, uint32_t> row_index_;                       // into rows_
  bool has_times_ = false;
  bool has_device_ = false;
  std::vector<int64_t> device_ns_;                    // of each trace
  std::vector<std::pair<size_t, uint64_t>> untimed_;  // traces, and how many of their calls have no times
  StatsSort sort_ = StatsSort::kCalls;
  // Calls that take tensors.
  uint64_t with_elements_ = 0, without_elements_ = 0;
  bool times_mean_nothing_ = false;
  std::map<int, TotalsOfTraces> levels_;
  TotalsOfTraces totals_;
  std::vector<StatsRow> rows_;
  std::vector<Table> tables_;
};

}  // namespace

absl::StatusOr<StatsGrouping> ParseStatsGrouping(std::string_view text) {
  if (text.starts_with(kTagPrefix) && text.size() > kTagPrefix.size()) {
    return StatsGrouping{StatsBy::kTag, std::string(text.substr(kTagPrefix.size()))};
  }
  std::vector<std::string> names;
  for (const Grouping& grouping : kGroupings) {
    if (text == grouping.name && grouping.by != StatsBy::kTag) return StatsGrouping{grouping.by};
    names.emplace_back(grouping.name);
  }
  return UnknownChoice("cannot group by", text, names);
}

std::vector<std::string> StatsGroupingNames() {
  std::vector<std::string> names;
  for (const Grouping& grouping : kGroupings) {
    if (grouping.by != StatsBy::kTag) names.emplace_back(grouping.name);
  }
  return names;
}

const Choices<StatsFormat>& StatsFormats() {
  static const Choices<StatsFormat> formats("unknown format", {{"text", StatsFormat::kText},
                                                               {"json", StatsFormat::kJson},
                                                               {"csv", StatsFormat::kCsv},
                                                               {"markdown", StatsFormat::kMarkdown}});
  return formats;
}

const Choices<StatsSort>& StatsSorts() {
  static const Choices<StatsSort> sorts("cannot sort by", {{"calls", StatsSort::kCalls},
                                                           {"configs", StatsSort::kConfigs},
                                                           {"time", StatsSort::kTime},
                                                           {"self", StatsSort::kSelf},
                                                           {"name", StatsSort::kName},
                                                           {"first", StatsSort::kFirst},
                                                           {"flops", StatsSort::kFlops},
                                                           {"bytes", StatsSort::kBytes},
                                                           {"device", StatsSort::kDevice},
                                                           {"memory", StatsSort::kMemory}});
  return sorts;
}

absl::Status WriteStats(const std::vector<StatsTrace>& traces, const StatsOptions& options, std::ostream* out,
                        std::vector<std::string>* notes) {
  if (options.grouping.by == StatsBy::kKernel) return WriteKernels(traces, options, out);
  StatsReport report(traces, options, out);
  const absl::Status written = report.Run();
  if (notes != nullptr) *notes = report.Notes();
  return written;
}

}  // namespace torchtrace
