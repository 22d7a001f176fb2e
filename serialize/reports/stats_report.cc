#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/reports/memory_report.h"
#include "serialize/reports/report_table.h"
#include "serialize/reports/reports.h"
#include "serialize/reports/shapes.h"
#include "serialize/reports/stats_rows.h"
#include "serialize/trace/run_facts.h"
#include "serialize/trace/step_times.h"

namespace torchtrace {
namespace {

constexpr std::string_view kTagPrefix = "tag:";

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

class StatsReport {
 public:
  StatsReport(const std::vector<StatsTrace>& traces, const StatsOptions& options, const StatsTable& table,
              std::ostream* out)
      : traces_(traces), options_(options), table_(table), out_(out), by_(options.grouping.by) {}

  absl::Status Write() const {
    ReportWriter report(options_.format, out_, options_.screen, /*rows_fit=*/!options_.top.has_value());
    report.AddLine(CallsLine(table_.totals.all, table_.totals.all.cost));
    AddTotals(&report);
    if (by_ == StatsBy::kStep && table_.has_times) AddStepSummary(&report);
    for (const StatsTable::Part& table : table_.parts) {
      if (table_.parts.size() > 1) {
        report.AddLine(
            absl::StrCat("\nlevel ", table.level, ": ",
                         CallsLine(table_.levels.at(table.level).all, table_.levels.at(table.level).all.of_level)));
      }
      report.BeginTable(table_.grouping->list, Columns());
      for (size_t i = table.begin; i < table.end; ++i) AddRow(table_.rows[i], &report);
      report.EndTable(table.left_out);
    }
    return report.Finish("the statistics");
  }

 private:
  // A trace without calls lacks no times.
  bool HasTimes(const StatsTotals& totals) const { return table_.has_times && (totals.timed || totals.calls == 0); }
  static bool HasDevice(const StatsTotals& totals) { return totals.has_device || totals.calls == 0; }

  std::string CallsLine(const StatsTotals& totals, const StatsCosts& cost) const {
    const double flops = cost.sum.cost.flops.value_or(0);
    return absl::StrCat(
        Counted(totals.calls, "call", "calls"), " of ", Counted(totals.apis, "API", "APIs"), " in ",
        Counted(totals.configs, "config", "configs"),
        traces_.size() > 1 ? absl::StrCat(" in ", Counted(traces_.size(), "trace", "traces")) : "",
        HasTimes(totals) && !table_.side_by_side ? absl::StrCat(", self time ", FormatDuration(totals.self_time_ns))
                                                 : "",
        table_.has_device && !table_.side_by_side ? absl::StrCat(", device time ", FormatDuration(totals.device_ns))
                                                  : "",
        flops > 0 && !table_.side_by_side ? absl::StrCat(", ", FormatAmount(flops), "FLOP") : "",
        table_.side_by_side ? "" : WithoutFormula(cost));
  }

  static std::string WithoutFormula(const StatsCosts& totals) {
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

  void AddTotals(ReportWriter* report) const {
    const auto members = [this](const StatsTotals& totals, const StatsCosts& cost) {
      ordered_json json = {
          {"total_calls", totals.calls}, {"total_apis", totals.apis}, {"total_configs", totals.configs}};
      if (table_.has_times) {
        json["total_self_time_ns"] = HasTimes(totals) ? ordered_json(totals.self_time_ns) : ordered_json(nullptr);
      }
      if (table_.has_device) {
        json["total_device_ns"] = HasDevice(totals) ? ordered_json(totals.device_ns) : ordered_json(nullptr);
      }
      if (table_.costs) {
        json["total_flops"] = AmountJson(cost.sum.cost.flops.value_or(0));
        json["total_bytes"] = AmountJson(cost.sum.cost.bytes.value_or(0));
        json["total_calls_without_formula"] = cost.sum.lacking;
      }
      return json;
    };
    report->AddMembers(members(table_.totals.all, table_.totals.all.cost));
    if (by_ == StatsBy::kTag) report->AddMembers({{"tag", options_.grouping.tag}});
    ordered_json lists = ordered_json::object();
    for (size_t i = 0; i < table_.totals.traces.size(); ++i) {
      ordered_json trace = {{"trace", traces_[i].name}};
      trace.update(members(table_.totals.traces[i], table_.totals.traces[i].cost));
      lists["traces"].push_back(std::move(trace));
    }
    if (table_.grouping->by_level) {
      lists["by_level"] = ordered_json::array();
      for (const auto& [level, totals] : table_.levels) {
        ordered_json of_level = {{"level", level}};
        of_level.update(members(totals.all, totals.all.of_level));
        lists["by_level"].push_back(std::move(of_level));
      }
    }
    report->AddMembers(lists);
  }

  // Of all rows, also those that aren't shown.
  void AddStepSummary(ReportWriter* report) const {
    const StepSummary summary = SummarizeSteps(table_.step_walls_ns);
    if (summary.steps == 0) return;
    ordered_json json_odd = ordered_json::array();
    for (const StatsTable::LongStep& step : table_.long_steps) {
      json_odd.push_back({{"step", step.name}, {"wall_ns", step.ns}});
    }
    report->AddLine(StepsLine(table_));
    report->AddMembers({{"step_times",
                         {{"steps", summary.steps},
                          {"mean_ns", summary.mean_ns},
                          {"p50_ns", summary.p50_ns},
                          {"p90_ns", summary.p90_ns},
                          {"p99_ns", summary.p99_ns},
                          {"long", std::move(json_odd)}}}});
  }

  void AddRow(const StatsRow& row, ReportWriter* report) const {
    const StatsTotalsOfTraces& totals = table_.grouping->by_level ? table_.levels.at(row.level) : table_.totals;
    std::vector<ReportCell> cells;
    if (!table_.grouping->label_last) cells.emplace_back(row.text_label);
    cells.insert(cells.end(), row.labels.begin(), row.labels.end());
    const auto add = [&](const char*, const char*, ReportCell cell) { cells.push_back(std::move(cell)); };
    AddNumbers(row.all, totals.all, add);
    for (size_t i = 0; i < row.traces.size(); ++i) AddNumbers(row.traces[i], totals.traces[i], add);
    if (table_.grouping->label_last) cells.emplace_back(row.text_label);
    report->AddRow(cells);
  }

  std::vector<ReportColumn> Columns() const {
    std::vector<ReportColumn> columns;
    const ReportColumn label{by_ == StatsBy::kTag ? FormatApi(options_.grouping.tag) : table_.grouping->title,
                             "",
                             "",
                             TextTable::kLeft,
                             nullptr,
                             /*clips=*/true};
    if (!table_.grouping->label_last) columns.push_back(label);
    if (table_.grouping->of_one_trace && traces_.size() > 1) columns.push_back({"", "trace", "trace"});
    for (const absl::string_view label_name : absl::StrSplit(table_.grouping->labels, ' ')) {
      columns.push_back({"", std::string(label_name), std::string(label_name)});
    }
    const auto add_numbers = [&](bool shown, const std::string* trace) {
      const size_t begin = columns.size();
      AddNumbers(StatsCells(), StatsTotals(), [&](const char* title, const char* name, const ReportCell&) {
        columns.push_back({shown ? title : "", name, name, TextTable::kRight, trace});
      });
      if (trace == nullptr) return;
      const auto leads = [&](std::string_view name) {
        const auto at =
            std::find_if(columns.begin() + static_cast<ptrdiff_t>(begin), columns.end(),
                         [name](const ReportColumn& column) { return !column.title.empty() && column.json == name; });
        if (at != columns.end()) at->leads = true;
        return at != columns.end();
      };
      if (!leads(SortedNumber())) leads("calls");
    };
    add_numbers(!table_.side_by_side, nullptr);
    if (table_.side_by_side) {
      for (const StatsTrace& trace : traces_) add_numbers(true, &trace.name);
    }
    if (table_.grouping->label_last) columns.push_back(label);
    return columns;
  }

  // The number that rows are sorted by, for programs.
  std::string_view SortedNumber() const {
    switch (table_.sort) {
      case StatsSort::kConfigs:
        return "configs";
      case StatsSort::kTime:
        return "time_ns";
      case StatsSort::kSelf:
        return "self_time_ns";
      case StatsSort::kDevice:
        return "device_ns";
      case StatsSort::kMemory:
        return "allocated_bytes";
      case StatsSort::kFlops:
        return "flops";
      case StatsSort::kBytes:
        return "bytes";
      default:
        return by_ == StatsBy::kStep ? "wall_ns" : "calls";
    }
  }

  // Calls `add` with each number of all traces or of one, and its names for people and programs. Side by side there is
  // less room: only the time that rows are sorted by. Sizes take room too.
  template <typename Add>
  void AddNumbers(const StatsCells& cells, const StatsTotals& totals, const Add& add) const {
    const bool shapes = by_ == StatsBy::kShapes;
    const bool self = !table_.side_by_side || table_.sort == StatsSort::kSelf;
    const auto alone = [this](const char* title) { return table_.side_by_side ? "" : title; };
    const ReportCell percent = PercentCell(cells.total.calls, totals.calls);
    if (by_ == StatsBy::kStep && table_.has_times) {
      add("wall", "wall_ns", cells.wall_ns.has_value() ? TimeCell(*cells.wall_ns) : ReportCell(nullptr, "-"));
    }
    add("calls", "calls", cells.total.calls);
    add(shapes ? "" : alone("calls %"), "", percent);
    if (table_.grouping->apis) add("APIs", "apis", cells.apis);
    if (table_.grouping->configs) add(shapes ? "" : "configs", "configs", cells.configs);
    add("", "percent", percent);
    if (table_.has_times) {
      // Calls without times have no sum.
      const bool timed = cells.total.timed || (cells.total.calls == 0 && HasTimes(totals));
      const auto add_timed = [&](const char* title, const char* name, const ReportCell& cell) {
        add(title, name, timed ? cell : ReportCell(nullptr, "-"));
      };
      add_timed(table_.side_by_side && self ? "" : "time", "time_ns", TimeCell(cells.total.time_ns));
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
    if (table_.has_device) {
      const bool known = cells.total.has_device || (cells.total.calls == 0 && HasDevice(totals));
      add_known(known, "device", "device_ns", TimeCell(cells.total.device_ns));
      add_known(known, alone("device %"), "device_percent",
                PercentCell(static_cast<uint64_t>(cells.total.device_ns), static_cast<uint64_t>(totals.device_ns)));
    }
    if (table_.costs) {
      const auto amount = [](const std::optional<double>& sum) {
        return sum.has_value() ? ReportCell(AmountJson(*sum), FormatAmount(*sum)) : ReportCell(nullptr, "-");
      };
      // People see no empty columns.
      const bool any = shapes || table_.totals.all.cost.sum.cost.bytes.has_value() || options_.shape_rules != nullptr;
      add(any ? alone("FLOP") : "", "flops", amount(cells.cost.flops));
      add(any ? alone("bytes") : "", "bytes", amount(cells.cost.bytes));
      // What devices achieved.
      const auto add_rate = [&](const char* title, const char* name, const std::optional<double>& sum, double unit) {
        const int64_t ns = cells.total.device_ns;
        const double rate = ns > 0 ? sum.value_or(0) * 1e9 / static_cast<double>(ns) : 0;
        add(alone(title), name,
            rate > 0 ? ReportCell(rate, absl::StrFormat("%.4g", rate / unit)) : ReportCell(nullptr, "-"));
      };
      if (shapes && table_.has_device) {
        add_rate("TFLOP/s", "flops_per_s", cells.cost.flops, 1e12);
        add_rate("GB/s", "bytes_per_s", cells.cost.bytes, 1e9);
      }
    }
    if (options_.all_times && table_.has_times) {
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
    if (table_.memory) {
      const MemoryTotal memory = cells.total.memory.All();
      const bool known = cells.total.has_memory || (cells.total.calls == 0 && (totals.has_memory || totals.calls == 0));
      const auto add_bytes = [&](const char* title, const char* name, uint64_t bytes) {
        add_known(known, table_.sort == StatsSort::kMemory ? title : alone(title), name,
                  ReportCell(bytes, FormatAmount(static_cast<double>(bytes))));
      };
      add_bytes("allocated", "allocated_bytes", memory.allocated);
      add_bytes("freed", "freed_bytes", memory.freed);
      add_bytes("peak", "peak_bytes", memory.peak);
      add_bytes("held", "held_bytes", memory.held);
      if (table_.memory_devices.size() > 1)
        add_known(known, "", "devices", ReportCell(DevicesJson(cells.total.memory), ""));
    }
    if (options_.times) add("", "raised", cells.total.raised);
  }

  const std::vector<StatsTrace>& traces_;
  const StatsOptions& options_;
  const StatsTable& table_;
  std::ostream* const out_;
  const StatsBy by_;
};

}  // namespace

std::string StepsLine(const StatsTable& table) {
  const StepSummary summary = SummarizeSteps(table.step_walls_ns);
  if (summary.steps == 0) return "";
  constexpr size_t kMostLong = 5;
  std::vector<std::string> most;
  for (const StatsTable::LongStep& step : table.long_steps) {
    if (most.size() == kMostLong) {
      most.emplace_back("...");
      break;
    }
    most.push_back(
        absl::StrCat(step.name, " (", FormatDuration(step.ns), ", x", absl::StrFormat("%.1f", step.times), ")"));
  }
  return absl::StrCat(Counted(summary.steps, "step", "steps"), ": mean ", FormatDuration(summary.mean_ns), ", p50 ",
                      FormatDuration(summary.p50_ns), ", p90 ", FormatDuration(summary.p90_ns), ", p99 ",
                      FormatDuration(summary.p99_ns),
                      most.empty() ? "" : absl::StrCat("; long: step ", absl::StrJoin(most, ", ")));
}

absl::StatusOr<StatsGrouping> ParseStatsGrouping(std::string_view text) {
  if (text.starts_with(kTagPrefix) && text.size() > kTagPrefix.size()) {
    return StatsGrouping{StatsBy::kTag, std::string(text.substr(kTagPrefix.size()))};
  }
  std::vector<std::string> names;
  for (const StatsGroupingTraits& grouping : StatsGroupings()) {
    if (text == grouping.name && grouping.by != StatsBy::kTag) return StatsGrouping{grouping.by};
    names.emplace_back(grouping.name);
  }
  return UnknownChoice("cannot group by", text, names);
}

std::vector<std::string> StatsGroupingNames() {
  std::vector<std::string> names;
  for (const StatsGroupingTraits& grouping : StatsGroupings()) {
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
  const absl::StatusOr<std::unique_ptr<const StatsTable>> table = ReadStats(traces, options);
  if (!table.ok()) return table.status();
  if (notes != nullptr) *notes = (*table)->notes;
  return StatsReport(traces, options, **table, out).Write();
}

}  // namespace torchtrace
