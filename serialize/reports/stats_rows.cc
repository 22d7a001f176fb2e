#include "serialize/reports/stats_rows.h"

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
#include "absl/strings/str_split.h"
#include "serialize/base/matching.h"
#include "serialize/base/saturating.h"
#include "serialize/base/text.h"
#include "serialize/configs/family.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/model/graph_calls.h"
#include "serialize/reports/repeated_stats.h"
#include "serialize/reports/report_table.h"
#include "serialize/reports/reports.h"
#include "serialize/reports/shapes.h"
#include "serialize/reports/stats_places.h"
#include "serialize/trace/launched_work.h"
#include "serialize/trace/live_memory.h"
#include "serialize/trace/run_facts.h"
#include "serialize/trace/step_times.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

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
  uint32_t row = 0;  // index into table_.rows, if rows are not places
  ConfigCost cost = {};
  CallTotal all = {};
  std::vector<CallTotal> traces = {};  // side by side
};

// Of a graph.
constexpr size_t kReasonLabel = 5;
constexpr size_t kBreaksLabel = 6;

class StatsReader : public RowNames {
 public:
  // `repeats`: for Repeat, whose rows of lines are the same in two checkouts of a program.
  StatsReader(const std::vector<StatsTrace>& traces, const StatsOptions& options, bool repeats = false)
      : traces_(traces),
        options_(options),
        by_(options.grouping.by),
        reads_(options.times || options.numbers || options.ChoosesCalls() || by_place() || by_ == StatsBy::kShapes ||
               options.sort == StatsSort::kFirst || ShowsCosts(options)),
        sorts_by_time_(options.times &&
                       (options.sort.has_value() ? options.sort == StatsSort::kTime || options.sort == StatsSort::kSelf
                                                 : by_ == StatsBy::kShapes)),
        filter_(options.filter),
        places_(options.grouping, traces, /*short_files=*/repeats) {
    const std::vector<StatsGroupingTraits>& groupings = StatsGroupings();
    table_.grouping = &*std::find_if(groupings.begin(), groupings.end(),
                                     [this](const StatsGroupingTraits& grouping) { return grouping.by == by_; });
    table_.side_by_side = traces.size() > 1 && !options.sum && !table_.grouping->of_one_trace;
    table_.costs = ShowsCosts(options);
    table_.memory = options.times && std::any_of(traces.begin(), traces.end(),
                                                 [](const StatsTrace& each) { return HasMemory(*each.trace); });
    if (table_.costs) shape_rules_ = options.shape_rules != nullptr ? *options.shape_rules : ShapeRules::BuiltIn();
  }

  absl::Status Run() {
    for (size_t i = 0; i < traces_.size(); ++i) {
      if (absl::Status s = CheckLines(i); !s.ok()) return s;
      if (options_.numbers && !HasNumbers(*traces_[i].trace)) {
        return absl::FailedPreconditionError(
            absl::StrCat(traces_[i].name, " has no numbers of tensors: record them with torchtrace run --numbers"));
      }
      if (absl::Status s = Add(i); !s.ok()) return s;
    }
    if (by_place()) {
      if (absl::Status s = places_.Finish(); !s.ok()) return s;
    }
    if (absl::Status s = CheckGraphs(); !s.ok()) return s;
    const bool by_time = (by_ == StatsBy::kShapes || by_ == StatsBy::kGraph) && table_.has_times;
    table_.sort = options_.sort.value_or(by_time                 ? StatsSort::kTime
                                         : by_ == StatsBy::kStep ? StatsSort::kName
                                                                 : StatsSort::kCalls);
    if (sorts_by_time_ && with_elements_ < without_elements_) {
      times_mean_nothing_ = true;
      if (!options_.sort.has_value()) table_.sort = HasFlops() ? StatsSort::kFlops : StatsSort::kCalls;
    }
    if (!table_.has_times && (table_.sort == StatsSort::kTime || table_.sort == StatsSort::kSelf)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "cannot sort by time: ",
          options_.times ? absl::StrCat(traces_.size() == 1 ? traces_[0].name + " has" : std::string("the traces have"),
                                        " no times")
                         : std::string("--no-times leaves them out")));
    }
    if (table_.sort == StatsSort::kDevice && !table_.has_device) {
      std::string why;
      for (size_t i = 0; i < traces_.size() && why.empty(); ++i) why = WhyNotSeen(*traces_[i].trace, "device times");
      return absl::InvalidArgumentError(
          absl::StrCat("cannot sort by device time: ", !options_.times ? "--no-times leaves it out"
                                                       : why.empty()   ? "record it with torchtrace run --device-times"
                                                                       : why));
    }
    if (table_.sort == StatsSort::kMemory && !table_.memory) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot sort by memory: ",
                       options_.times ? "record it with torchtrace run --memory" : "--no-times leaves it out"));
    }
    MakeRows();
    Sort();
    if (by_ == StatsBy::kStep) SumUpSteps();
    table_.notes = Notes();
    return absl::OkStatus();
  }

  std::unique_ptr<const StatsTable> Take() { return std::make_unique<const StatsTable>(std::move(table_)); }

  // Instead of Run.
  absl::StatusOr<std::vector<RepeatedTrace>> Repeat() {
    std::vector<RepeatedTrace> traces;
    for (size_t i = 0; i < traces_.size(); ++i) {
      if (absl::Status s = CheckLines(i); !s.ok()) return s;
      absl::StatusOr<RepeatedTrace> trace = RepeatTrace(i);
      if (!trace.ok()) return trace.status();
      traces.push_back(*std::move(trace));
    }
    if (by_place()) {
      if (absl::Status s = places_.Finish(); !s.ok()) return s;
    }
    if (absl::Status s = CheckGraphs(); !s.ok()) return s;
    table_.notes = Notes();
    return traces;
  }
  const StatsTable& table() const { return table_; }

  // RowNames, after Repeat.
  std::string Text(uint32_t row) const override { return Named(row).text_label; }
  ordered_json Members(uint32_t row) const override {
    const StatsRow named = Named(row);
    ordered_json members = ordered_json::object();
    size_t i = 0;
    for (const absl::string_view name : absl::StrSplit(table_.grouping->labels, ' ')) {
      members[std::string(name)] = i < named.labels.size() ? named.labels[i].value : ordered_json();
      ++i;
    }
    return members;
  }
  std::optional<int> LevelOf(uint32_t row) const override {
    return table_.grouping->by_level ? std::optional<int>(table_.rows[row].level) : std::nullopt;
  }
  std::optional<double> NumberOf(uint32_t row) const override {
    return by_place() ? places_.all()[row].number : table_.rows[row].number;
  }

 private:
  absl::Status CheckLines(size_t trace) const {
    if (by_ != StatsBy::kLine || HasStacks(*traces_[trace].trace)) return absl::OkStatus();
    return NothingLabelled(LabelBy::kLine, traces_[trace].name + " has");
  }
  absl::Status CheckGraphs() const {
    if (by_ != StatsBy::kGraph || !table_.rows.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(traces_.size() == 1 ? traces_[0].name + " has" : std::string("the traces have"),
                     " no graphs of torch.compile: the program compiled nothing, or its calls are filtered out"));
  }

  void SumUpSteps() {
    const StatsPlaces::StepWalls walls = places_.WallsOfSteps(options_.skip_steps);
    for (const auto& [place, ns] : walls.ns) table_.step_walls_ns.push_back(ns);
    for (const auto& [place, step] : walls.long_ones) {
      table_.long_steps.push_back({places_.all()[place].text, step.ns, step.times});
    }
  }

  std::vector<std::string> Notes() const {
    std::vector<std::string> notes = places_.Notes();
    if (times_mean_nothing_) {
      notes.push_back(
          absl::StrCat("most calls take meta or fake tensors, which hold nothing: their times are Python's "
                       "and PyTorch's own",
                       options_.sort.has_value()          ? ""
                       : table_.sort == StatsSort::kFlops ? "; sorted by FLOP instead"
                                                          : "; sorted by calls instead"));
    }
    for (const auto& [trace, calls] : untimed_) {
      if (!table_.has_times) break;
      notes.push_back(absl::StrCat(traces_[trace].name, ": ", Counted(calls, "call has", "calls have"),
                                   " no times, and ", calls == 1 ? "is" : "are", " left out of their sums"));
    }
    for (const StatsTrace& each : traces_) {
      if (!table_.memory) break;
      for (const std::string& text : NotSeen(*each.trace, "memory ")) {
        notes.push_back(absl::StrCat(each.name, ": not seen: ", text));
      }
    }
    return notes;
  }

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
           options.sort == StatsSort::kBytes || options.costs || options.shape_rules != nullptr;
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

  // `of_configs`: of the accepted configs, into configs_; must outlive the sums.
  SumOptions SumsOf(size_t number, std::vector<size_t>* of_configs) {
    Trace* const trace = traces_[number].trace;
    SumOptions sums;
    sums.row = [this, trace, of_configs](ConfigId id) {
      std::vector<size_t>& ids = *of_configs;
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
    if (table_.costs) {
      sums.cost = [this, of_configs](ConfigId id) { return configs_[(*of_configs)[id]].cost; };
    }
    if (options_.ChoosesCalls()) sums.selection = &options_;
    sums.durations = options_.all_times;
    sums.numbers = options_.numbers;
    sums.device = options_.times && HasDeviceTimes(*trace);
    table_.has_device = table_.has_device || sums.device;
    sums.memory = table_.memory;
    sums.trace = number;
    return sums;
  }

  absl::Status Add(size_t number) {
    Trace* const trace = traces_[number].trace;
    std::vector<size_t> ids;
    const SumOptions sums = SumsOf(number, &ids);
    absl::StatusOr<TraceTotals> totals = reads_ ? SumCalls(trace, sums) : CountConfigs(trace, sums);
    if (!totals.ok()) return totals.status();
    table_.has_times = table_.has_times || (options_.times && totals->has_times);
    device_ns_.push_back(totals->device_ns);
    if (totals->untimed > 0) untimed_.emplace_back(number, totals->untimed);
    if (sorts_by_time_) CountElements(*trace, *totals);
    for (ConfigId id = 0; id < totals->configs.size(); ++id) {
      const CallTotal& total = totals->configs[id];
      if (total.calls == 0) continue;
      GlobalConfig& config = configs_[ids[id]];
      config.all.Add(total);
      if (!table_.side_by_side) continue;
      config.traces.resize(traces_.size());
      config.traces[number].Add(total);
    }
    place_rows_.resize(std::max(place_rows_.size(), totals->places.size()));
    for (PlaceId place = 0; place < totals->places.size(); ++place) {
      const PlaceTotal& total = totals->places[place];
      if (total.total.calls == 0) continue;
      PlaceRow& row = place_rows_[place];
      AddToTally(total, ids, &row.all);
      if (table_.side_by_side) {
        row.traces.resize(traces_.size());
        AddToTally(total, ids, &row.traces[number]);
      }
      totals->places[place].configs = {};
    }
    return absl::OkStatus();
  }

  absl::StatusOr<RepeatedTrace> RepeatTrace(size_t number) {
    Trace* const trace = traces_[number].trace;
    RepeatedTrace repeated;
    repeated.repetitions.emplace_back();
    StepTimes steps(trace);
    absl::flat_hash_map<std::pair<uint32_t, uint64_t>, uint32_t> numbers;  // by process and step
    std::vector<size_t> ids;
    SumOptions sums = SumsOf(number, &ids);
    sums.repetition = [&](const CallRecord& entry) -> uint32_t {
      const StepPlace at = steps.Add(entry);
      if (at.kind != StepPlace::kInStep) return 0;
      const auto [known, fresh] =
          numbers.try_emplace({entry.process, at.number}, static_cast<uint32_t>(repeated.repetitions.size()));
      if (fresh) repeated.repetitions.push_back({entry.process, at.number, {}});
      return known->second;
    };
    sums.rows_are_levels = by_ == StatsBy::kLevel;
    absl::StatusOr<TraceTotals> totals = SumCalls(trace, sums);
    if (!totals.ok()) return totals.status();
    steps.Finish();
    for (size_t i = 1; i < repeated.repetitions.size(); ++i) {
      Repetition& repetition = repeated.repetitions[i];
      const ProgramStep& step = steps.Of(repetition.process).at(repetition.step);
      if (step.end_ns.has_value()) repetition.wall_ns = *step.end_ns - step.begin_ns;
    }
    const auto add = [&repeated](uint32_t row, const CallTotal& total) {
      if (row >= repeated.spreads.size()) repeated.spreads.resize(row + size_t{1});
      for (RowSpread* const spread : {&repeated.spreads[row], &repeated.spread}) {
        const double ns = total.spread.sum();
        spread->all_ns += ns;
        if (total.spread.calls() < 2) continue;
        spread->variance += total.spread.VarianceOfSum();
        spread->repeated_ns += ns;
      }
    };
    for (ConfigId id = 0; id < totals->configs.size(); ++id) {
      const CallTotal& total = totals->configs[id];
      if (total.calls == 0) continue;
      repeated.without_formula += total.cost.lacking;
      if (!by_place()) add(configs_[ids[id]].row, total);
    }
    for (PlaceId place = 0; place < totals->places.size(); ++place) add(place, totals->places[place].total);
    table_.has_times = table_.has_times || totals->has_times;
    if (totals->untimed > 0) untimed_.emplace_back(number, totals->untimed);
    repeated.has_times = totals->has_times;
    repeated.untimed = totals->untimed;
    repeated.has_device = sums.device;
    repeated.has_memory = HasMemory(*trace);
    repeated.peaks = std::move(totals->peaks);
    repeated.rows = totals->repetitions.Take();
    repeated.whole = totals->whole.Take();
    return repeated;
  }

  void AddToTally(const PlaceTotal& total, const std::vector<size_t>& ids, Tally* tally) const {
    tally->total.Add(total.total);
    std::vector<uint32_t> configs(tally->configs);
    for (const ConfigId id : total.configs) configs.push_back(static_cast<uint32_t>(ids[id]));
    std::sort(configs.begin(), configs.end());
    tally->configs.assign(configs.begin(), std::unique(configs.begin(), configs.end()));
  }

  StatsCells CellsOf(const Tally& tally) const {
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
        identity = table_.coarse.emplace_back(std::move(coarse));
      } else {
        identity = known->first;
      }
    }
    const auto [at, fresh] = config_index_.try_emplace(identity, configs_.size());
    if (fresh) {
      GlobalConfig& config = configs_.emplace_back(GlobalConfig{identity, ReadConfigHead(identity)});
      config.api = api_index_.try_emplace({config.head.level, config.head.api}, api_index_.size()).first->second;
      CallShapes shapes;
      if (table_.costs) shapes = shape_rules_.Find(ReadableConfig(identity));
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
        row.identity = config.identity;
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
          if (compilation != row_index_.end()) AddReason(call, &table_.rows[compilation->second]);
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
    const auto [at, fresh] = row_index_.try_emplace(std::move(key), static_cast<uint32_t>(table_.rows.size()));
    if (fresh) table_.rows.push_back(std::move(row));
    return at->second;
  }

  void MakeRows() {
    const size_t columns = table_.side_by_side ? traces_.size() : 0;
    std::map<std::pair<int, std::string_view>, std::vector<bool>> apis;  // whether each trace calls them
    const auto totals_of = [&](int level) -> StatsTotalsOfTraces& {
      StatsTotalsOfTraces& totals = table_.levels[level];
      totals.traces.resize(columns);
      return totals;
    };
    const auto add = [this](const GlobalConfig& config, const CallTotal& total, StatsTotals* totals) {
      for (const auto& [device, memory] : total.memory.devices) table_.memory_devices.insert(device);
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
    const auto add_to_row = [this](const GlobalConfig& config, const CallTotal& total, StatsCells* cells) {
      cells->Add(total);
      if (by_ != StatsBy::kLevel) cells->AddCost(total, config.cost.cost);
    };
    for (const GlobalConfig& config : configs_) {
      if (config.all.calls == 0) continue;
      StatsTotalsOfTraces& totals = totals_of(config.head.level);
      add(config, config.all, &totals.all);
      StatsRow* const row = by_place() ? nullptr : &table_.rows[config.row];
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
      StatsTotalsOfTraces& totals = totals_of(api.first);
      ++totals.all.apis;
      for (size_t i = 0; i < columns; ++i) totals.traces[i].apis += called[i] ? 1 : 0;
    }
    table_.totals.traces.resize(columns);
    for (const auto& [level, totals] : table_.levels) {
      table_.totals.all.Add(totals.all);
      for (size_t i = 0; i < columns; ++i) table_.totals.traces[i].Add(totals.traces[i]);
    }
    // Several levels count the same work.
    table_.totals.all.device_ns = 0;
    for (const int64_t ns : device_ns_) AddSaturating(ns, &table_.totals.all.device_ns);
    for (size_t i = 0; i < columns; ++i) table_.totals.traces[i].device_ns = device_ns_[i];
    if (by_ == StatsBy::kLevel) {
      for (StatsRow& row : table_.rows) {
        if (row.all.total.calls == 0) continue;
        const StatsTotalsOfTraces& of_level = table_.levels[row.level];
        row.all.apis = of_level.all.apis;
        row.all.cost = of_level.all.of_level.sum.cost;
        for (size_t i = 0; i < columns; ++i) {
          row.traces[i].apis = of_level.traces[i].apis;
          row.traces[i].cost = of_level.traces[i].of_level.sum.cost;
        }
      }
    }
    table_.rows.reserve(table_.rows.size() + place_rows_.size());
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
      table_.rows.push_back(std::move(row));
      from = {};  // there may be many
    }
    std::erase_if(table_.rows, [](const StatsRow& row) { return row.all.total.calls == 0; });
  }

  void Sort() {
    // Long labels are made only for the rows that are shown, unless the order depends on them.
    if (table_.sort == StatsSort::kName) LabelConfigs();
    const auto amount = [this](const StatsRow& row) -> double {
      switch (table_.sort) {
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
    std::sort(table_.rows.begin(), table_.rows.end(), [&](const StatsRow& a, const StatsRow& b) {
      if (table_.grouping->by_level && a.level != b.level) return a.level < b.level;
      if (const double left = amount(a), right = amount(b); left != right) return left > right;
      if (table_.sort == StatsSort::kName) {
        // Numbers before texts, and by their value.
        if (a.number.has_value() != b.number.has_value()) return a.number.has_value();
        if (a.number != b.number) return a.number < b.number;
        if (a.text_label != b.text_label) return a.text_label < b.text_label;
      }
      return std::tie(a.all.total.first, a.order) < std::tie(b.all.total.first, b.order);
    });
    // One table, or one for each level.
    const uint64_t top = options_.top.value_or(
        IsForPeople(options_.format)
            ? RowsOnAScreen(table_.grouping->by_level ? table_.levels.size() : 1, options_.screen.lines)
            : 0);
    std::vector<StatsRow> shown;
    for (size_t begin = 0, end = 0; begin < table_.rows.size(); begin = end) {
      while (end < table_.rows.size() &&
             (!table_.grouping->by_level || table_.rows[end].level == table_.rows[begin].level))
        ++end;
      const size_t count = top > 0 ? std::min<size_t>(top, end - begin) : end - begin;
      table_.parts.push_back({table_.rows[begin].level, shown.size(), shown.size() + count, end - begin - count});
      std::move(table_.rows.begin() + static_cast<ptrdiff_t>(begin),
                table_.rows.begin() + static_cast<ptrdiff_t>(begin + count), std::back_inserter(shown));
    }
    if (table_.parts.empty()) table_.parts.push_back({});
    table_.rows = std::move(shown);
    if (table_.sort != StatsSort::kName) LabelConfigs();
  }

  void LabelConfigs() {
    if (by_ != StatsBy::kConfig && by_ != StatsBy::kFamily) return;
    for (StatsRow& row : table_.rows) LabelConfig(&row);
  }

  void LabelConfig(StatsRow* row) const {
    const GlobalConfig& config = configs_[row->config];
    row->text_label = ConfigText(config.identity);
    if (by_ == StatsBy::kFamily) {
      if (const absl::StatusOr<Config> parsed = ParseConfig(config.identity); parsed.ok()) {
        row->text_label = FormatFamily(*parsed);
      }
    }
    row->labels = {row->text_label, std::string(config.head.api), config.head.level};
  }

  // A row of RepeatedTrace, with its names alone.
  StatsRow Named(uint32_t number) const {
    StatsRow row;
    if (by_place()) {
      const StatsPlace& place = places_.all()[number];
      row.labels = place.labels;
      row.text_label = place.text;
      row.number = place.number;
      return row;
    }
    row = table_.rows[number];
    if (by_ == StatsBy::kConfig || by_ == StatsBy::kFamily) LabelConfig(&row);
    return row;
  }

  const std::vector<StatsTrace>& traces_;
  const StatsOptions& options_;
  const StatsBy by_;
  const bool reads_;  // false: only counts
  const bool sorts_by_time_;
  GlobMemo filter_;
  StatsPlaces places_;
  ShapeRules shape_rules_;
  std::vector<PlaceRow> place_rows_;  // by PlaceId
  std::vector<GlobalConfig> configs_;
  absl::flat_hash_map<std::string_view, size_t> config_index_;                 // identities into configs_
  absl::flat_hash_map<std::pair<int, std::string_view>, uint32_t> api_index_;  // GlobalConfig::api
  absl::flat_hash_map<std::string, uint32_t> row_index_;                       // into table_.rows
  std::vector<int64_t> device_ns_;                                             // of each trace
  std::vector<std::pair<size_t, uint64_t>> untimed_;  // traces, and how many of their calls have no times
  // Calls that take tensors.
  uint64_t with_elements_ = 0, without_elements_ = 0;
  bool times_mean_nothing_ = false;
  StatsTable table_;
};

}  // namespace

const std::vector<StatsGroupingTraits>& StatsGroupings() {
  static const std::vector<StatsGroupingTraits> groupings = {
      {StatsBy::kApi, "api", "apis", "API", false, true, false, true, false, "api level"},
      {StatsBy::kConfig, "config", "configs", "config", true, true, false, false, false, "config api level"},
      {StatsBy::kFamily, "family", "families", "family", true, true, false, true, false, "family api level"},
      {StatsBy::kShapes, "shapes", "shapes", "shapes", true, true, false, true, false, "api sizes dtype level"},
      {StatsBy::kGraph, "graph", "graphs", "graph", true, true, false, false, false,
       "graph function file line what reason breaks"},
      {StatsBy::kKernel, "kernel", "kernels", "kernel", true, false, false, false, false, "kernel"},
      {StatsBy::kLevel, "level", "levels", "level", false, false, true, true, false, "level"},
      {StatsBy::kThread, "thread", "threads", "thread", false, false, true, true, true,
       "process log thread os_id name"},
      {StatsBy::kProcess, "process", "processes", "process", false, false, true, true, true, "process log ended"},
      {StatsBy::kRank, "rank", "ranks", "rank", false, false, true, true, false, "rank"},
      {StatsBy::kLabel, "label", "labels", "label", false, false, true, true, false, "label"},
      {StatsBy::kLine, "line", "lines", "line", true, false, true, true, false, "file line function module"},
      {StatsBy::kModule, "module", "modules", "module", true, false, true, true, false, "module class"},
      {StatsBy::kStep, "step", "steps", "step", false, false, true, true, false, "number step"},
      {StatsBy::kTag, "tag:NAME", "tags", "", false, false, true, true, false, "value"},
  };
  return groupings;
}

absl::StatusOr<RepeatedStats> RepeatStats(const std::vector<StatsTrace>& traces, const StatsOptions& options) {
  auto reader = std::make_unique<StatsReader>(traces, options, /*repeats=*/true);
  const StatsGroupingTraits& grouping = *reader->table().grouping;
  const bool kernels = grouping.by == StatsBy::kKernel;
  if (kernels || grouping.of_one_trace) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot compare by ", grouping.name, ": ",
        kernels ? "kernels are in no step; --by api shows device times" : "no two traces have one in common"));
  }
  absl::StatusOr<std::vector<RepeatedTrace>> repeated = reader->Repeat();
  if (!repeated.ok()) return repeated.status();
  RepeatedStats stats = {*std::move(repeated), nullptr, grouping.title, reader->table().notes};
  if (grouping.by == StatsBy::kTag) stats.title = options.grouping.tag;
  stats.names = std::move(reader);
  return stats;
}

absl::StatusOr<std::unique_ptr<const StatsTable>> ReadStats(const std::vector<StatsTrace>& traces,
                                                            const StatsOptions& options) {
  StatsReader reader(traces, options);
  if (absl::Status s = reader.Run(); !s.ok()) return s;
  return reader.Take();
}

}  // namespace torchtrace
