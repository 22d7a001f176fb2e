#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/diff/gates.h"
#include "serialize/diff/reports.h"
#include "serialize/diff/time_diff.h"
#include "serialize/diff/time_text.h"
#include "serialize/forms/forms.h"
#include "serialize/reports/memory_report.h"
#include "serialize/reports/repeated_stats.h"
#include "serialize/reports/report_table.h"
#include "serialize/reports/shapes.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// In RowChange's order.
constexpr const char* kRowChanges[] = {"removed", "added", "slower", "faster", "changed"};

std::string TimeText(double ns) { return FormatDuration(static_cast<int64_t>(std::llround(ns))); }
std::string AmountText(double amount) {
  // Means may be small.
  const bool whole = amount == std::floor(amount) || amount >= 100;
  std::string text = whole ? FormatAmount(amount) : absl::StrFormat("%.3g", amount);
  if (text.ends_with(' ')) text.pop_back();
  return text;
}
// `48`, `48 -> 96`
std::string BothText(const std::string& a, const std::string& b) { return a == b ? a : absl::StrCat(a, " -> ", b); }

ordered_json TimeJson(const Measured& measured) { return static_cast<int64_t>(std::llround(measured.value)); }
ordered_json NoiseJson(const Difference& difference) {
  if (!difference.noise.has_value()) return nullptr;
  return static_cast<int64_t>(std::llround(*difference.noise));
}

class TimeReport {
 public:
  TimeReport(const RepeatedStats& stats, TimeDiff diff, const DiffOptions& options,
             const TimeReportOptions& time_options, const GateResults& gates, std::ostream* out)
      : stats_(stats),
        diff_(std::move(diff)),
        options_(options),
        time_(time_options),
        gates_(gates),
        out_(*out),
        a_group_(options.a_name),
        b_group_(options.b_name) {
    std::erase_if(diff_.rows, [this](const RowDifference& row) {
      const bool removed = row.change == RowChange::kRemoved, added = row.change == RowChange::kAdded;
      if (options_.only.Shows(removed, added)) return false;
      ++not_shown_;
      return true;
    });
    Sort();
  }

  absl::Status Write() {
    const StatsFormat format = options_.format == DiffFormat::kJson       ? StatsFormat::kJson
                               : options_.format == DiffFormat::kMarkdown ? StatsFormat::kMarkdown
                                                                          : StatsFormat::kText;
    const bool text = format == StatsFormat::kText, markdown = format == StatsFormat::kMarkdown;
    const size_t top = time_.top.value_or(IsForPeople(format) ? RowsOnAScreen(1, time_.screen.lines) : 0);
    const size_t shown = top == 0 ? diff_.rows.size() : std::min<size_t>(top, diff_.rows.size());
    ReportWriter report(format, &out_, time_.screen, /*rows_fit=*/!time_.top.has_value());
    if (markdown) {
      out_ << "# torchtrace diff\n";
      WriteGatesMarkdown(gates_, &out_);
      out_ << "\n";
    }
    AddHeading(&report, markdown);
    AddMembers(&report);
    if (!options_.summary) {
      FindLevels(shown);
      if (shown > 0 || format == StatsFormat::kJson) {
        report.BeginTable("rows", Columns());
        for (size_t i = 0; i < shown; ++i) AddRow(diff_.rows[i], &report);
        report.EndTable(diff_.rows.size() - shown);
      }
    }
    report.AddLine("");
    report.AddLine(Rest());
    if (text) WriteGatesText(gates_, options_.color, &out_);
    return report.Finish("the comparison");
  }

 private:
  void Sort() {
    std::vector<std::pair<std::string, size_t>> names;
    const ComparedNumbers& numbers = diff_.numbers;
    const auto amount = [&](const RowDifference& row) -> double {
      Measured MeasuredRow::* const time = row.Time(numbers);
      switch (time_.sort) {
        case TimeSort::kRatio: {
          const double a = (row.a.*time).value, b = (row.b.*time).value;
          return a <= 0 || b <= 0 ? HUGE_VAL : std::abs(std::log(b / a));
        }
        case TimeSort::kCalls:
          return std::abs(row.b.calls.value - row.a.calls.value);
        case TimeSort::kDevice:
          return std::abs(row.b.device_ns.value - row.a.device_ns.value);
        case TimeSort::kMemory:
          return std::abs(row.b.allocated.value - row.a.allocated.value);
        case TimeSort::kName:
          return 0;
        default:
          return std::abs(row.Of(time).value);
      }
    };
    struct Key {
      double amount;
      double calls;
      std::optional<double> number;
      std::string name;
    };
    std::vector<std::pair<Key, RowDifference>> keyed;
    for (const RowDifference& row : diff_.rows) {
      Key key = {amount(row), std::abs(row.b.calls.value - row.a.calls.value), {}, {}};
      if (time_.sort == TimeSort::kName) {
        key.number = stats_.names->NumberOf(row.row);
        key.name = stats_.names->Text(row.row);
      }
      keyed.emplace_back(std::move(key), row);
    }
    std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) {
      if (a.first.amount != b.first.amount) return a.first.amount > b.first.amount;
      if (a.first.number.has_value() != b.first.number.has_value()) return a.first.number.has_value();
      if (a.first.number != b.first.number) return a.first.number < b.first.number;
      if (a.first.name != b.first.name) return a.first.name < b.first.name;
      return a.first.calls > b.first.calls;
    });
    for (size_t i = 0; i < keyed.size(); ++i) diff_.rows[i] = keyed[i].second;
  }

  // Names of operators are the same at levels 2 and 4.
  void FindLevels(size_t shown) {
    for (size_t i = 1; i < shown; ++i) {
      levels_ = levels_ || stats_.names->LevelOf(diff_.rows[i].row) != stats_.names->LevelOf(diff_.rows[0].row);
    }
  }

  std::string SideText(const TimeSide& side) const {
    const std::string steps = diff_.per_step ? absl::StrCat(", ", Counted(side.steps, "step", "steps")) : "";
    return absl::StrCat(AmountText(side.whole.calls.value), diff_.per_step ? " calls per step" : " calls", steps);
  }

  void AddHeading(ReportWriter* report, bool markdown) const {
    const size_t width = std::max(PlainLine(options_.a_name).size(), PlainLine(options_.b_name).size());
    const auto side = [&](const char* mark, const std::string& name, const TimeSide& of) {
      const std::string plain = PlainLine(name);
      if (markdown) {
        report->AddLine(absl::StrCat("- ", mark[0] == '-' ? "A: " : "B: ", MarkdownCode(name), ", ", SideText(of)));
      } else {
        report->AddLine(absl::StrCat(mark, " ", plain, std::string(width - plain.size(), ' '), "  ", SideText(of)));
      }
    };
    side("---", options_.a_name, diff_.a);
    side("+++", options_.b_name, diff_.b);
    const char* const bullet = markdown ? "- " : "";
    if (diff_.per_step) {
      report->AddLine(absl::StrCat(
          bullet, "per step: medians",
          diff_.warm_up == 0
              ? ""
              : absl::StrCat(" without each process's first ",
                             diff_.warm_up == 1 ? "step" : absl::StrCat(diff_.warm_up, " steps"), " (warm-up)"),
          "; noise: three standard errors, by median absolute deviation"));
    } else {
      report->AddLine(absl::StrCat(bullet,
                                   "of the whole runs, as no steps repeat; noise: three standard errors, by the "
                                   "standard deviation of equal calls"));
    }
    for (const std::string& line : WholeLines()) report->AddLine(bullet + line);
  }

  // `all calls: self time 12.3 ms -> 14.5 ms (+18.0%, noise 3.1%)`
  std::vector<std::string> WholeLines() const {
    std::vector<std::string> parts;
    const auto add = [&](const char* what, Measured MeasuredRow::* number, std::string (*format)(double)) {
      const Measured &a = diff_.a.whole.*number, &b = diff_.b.whole.*number;
      const Difference difference(a, b);
      const std::string from = format(a.value), to = format(b.value);
      parts.push_back(absl::StrCat(what, " ", from, " -> ", to, " (", FormatChange(a.value, b.value),
                                   difference.noise == 0.0 ? "" : ", noise " + FormatNoise(difference, a.value), ")"));
    };
    if (diff_.numbers.times) add("self time", &MeasuredRow::self_time_ns, TimeText);
    if (diff_.numbers.device) add("device time", &MeasuredRow::device_ns, TimeText);
    if (diff_.numbers.memory) add("allocated", &MeasuredRow::allocated, AmountText);
    if (diff_.numbers.flops) add("FLOP", &MeasuredRow::flops, AmountText);
    std::vector<std::string> lines;
    if (!parts.empty()) lines.push_back(absl::StrCat("all calls: ", absl::StrJoin(parts, ", ")));
    for (const auto& [device, bytes] : diff_.a.peaks) {
      for (const auto& [other, b_bytes] : diff_.b.peaks) {
        if (other != device || !diff_.numbers.memory) continue;
        const auto a = static_cast<double>(bytes), b = static_cast<double>(b_bytes);
        lines.push_back(absl::StrCat("peak of memory, ", DeviceName(device), ": ", AmountText(a), " -> ", AmountText(b),
                                     " (", FormatChange(a, b), ")"));
      }
    }
    return lines;
  }

  std::string Rest() const {
    return absl::StrCat(
        diff_.rows.empty() ? "no row differs" : Counted(diff_.rows.size(), "row differs", "rows differ"),
        not_shown_ == 0 ? "" : absl::StrCat(" (", not_shown_, " not shown, by --only)"),
        diff_.within_noise == 0 ? ""
                                : absl::StrCat("; ", Counted(diff_.within_noise, "row differs by less than its noise",
                                                             "rows differ by less than their noise")),
        diff_.unrepeated == 0 ? ""
                              : absl::StrCat("; ", diff_.unrepeated, diff_.unrepeated == 1 ? " repeats" : " repeat",
                                             " too seldom to tell"),
        diff_.same == 0 ? "" : absl::StrCat("; ", diff_.same, diff_.same == 1 ? " is" : " are", " the same"));
  }

  ordered_json SideJson(const std::string& name, const TimeSide& side) const {
    ordered_json peaks = ordered_json::object();
    for (const auto& [device, bytes] : side.peaks) peaks[DeviceName(device)] = bytes;
    ordered_json json = {{"trace", name}, {"steps", diff_.per_step ? ordered_json(side.steps) : ordered_json()}};
    AddNumbers(side.whole, &json);
    json["peak_bytes"] = diff_.numbers.memory ? peaks : ordered_json();
    return json;
  }

  void AddNumbers(const MeasuredRow& row, ordered_json* json) const {
    ForNumbers(row, [json](const char* name, ordered_json value) { (*json)[name] = std::move(value); });
  }
  template <typename Add>
  void ForNumbers(const MeasuredRow& row, const Add& add) const {
    const ComparedNumbers& numbers = diff_.numbers;
    add("calls", AmountJson(row.calls.value));
    if (numbers.times) add("self_time_ns", TimeJson(row.self_time_ns));
    if (numbers.device) add("device_ns", TimeJson(row.device_ns));
    if (numbers.memory) add("allocated_bytes", AmountJson(row.allocated.value));
    if (numbers.flops) add("flops", AmountJson(row.flops.value));
  }

  void AddMembers(ReportWriter* report) const {
    report->AddMembers({{"different", diff_.different()},
                        {"per", diff_.per_step ? "step" : "run"},
                        {"warm_up_steps", diff_.warm_up},
                        {"a", SideJson(options_.a_name, diff_.a)},
                        {"b", SideJson(options_.b_name, diff_.b)},
                        {"within_noise", diff_.within_noise},
                        {"unrepeated", diff_.unrepeated},
                        {"same", diff_.same}});
    if (gates_.gates.empty()) return;
    report->AddMembers({{"gates", GatesJson(gates_)}, {"incomplete", IncompleteJson(gates_)}});
  }

  // Each with its cell of a row.
  struct Cell {
    ReportColumn column;
    ReportCell cell;
  };
  std::vector<Cell> CellsOf(const RowDifference& row, bool named) const {
    std::vector<Cell> cells;
    const auto add = [&cells](ReportColumn column, ReportCell cell) {
      cells.push_back({std::move(column), std::move(cell)});
    };
    const std::string change = kRowChanges[static_cast<size_t>(row.change)];
    add({"change", "change", "", TextTable::kLeft}, change);
    if (levels_) {
      const std::optional<int> level = stats_.names->LevelOf(row.row);
      add({"level"}, {nullptr, level.has_value() ? LevelText(*level) : ""});
    }
    const ComparedNumbers& numbers = diff_.numbers;
    const auto text_of = [](const MeasuredRow& side, const Measured& number, std::string (*format)(double)) {
      return side.called ? format(number.value) : std::string("-");
    };
    const auto both = [&](const char* title, Measured MeasuredRow::* number, std::string (*format)(double)) {
      add({title}, {nullptr, BothText(text_of(row.a, row.a.*number, format), text_of(row.b, row.b.*number, format))});
    };
    const auto times = [&](const char* title, const char* name, Measured MeasuredRow::* number) {
      const Difference difference(row.a.*number, row.b.*number);
      const bool compares = row.a.called && row.b.called;
      add({absl::StrCat(title, " A")}, {nullptr, text_of(row.a, row.a.*number, TimeText)});
      add({absl::StrCat(title, " B")}, {nullptr, text_of(row.b, row.b.*number, TimeText)});
      add({"difference", absl::StrCat(name, "difference_ns")},
          {static_cast<int64_t>(std::llround(difference.value)), absl::StrCat(difference.value > 0   ? "+"
                                                                              : difference.value < 0 ? "-"
                                                                                                     : "",
                                                                              TimeText(std::abs(difference.value)))});
      const double a = (row.a.*number).value, b = (row.b.*number).value;
      add({"ratio", absl::StrCat(name, "ratio")},
          {compares && a > 0 ? ordered_json(b / a) : ordered_json(), compares ? FormatChange(a, b) : "-"});
      add({"noise", absl::StrCat(name, "noise_ns")},
          {compares ? NoiseJson(difference) : ordered_json(), compares ? FormatNoise(difference, a) : "-"});
    };
    both("calls", &MeasuredRow::calls, AmountText);
    if (numbers.times) times("self", "", &MeasuredRow::self_time_ns);
    if (numbers.device) times("device", "device_", &MeasuredRow::device_ns);
    if (numbers.memory) both("allocated", &MeasuredRow::allocated, AmountText);
    if (numbers.flops) both("FLOP", &MeasuredRow::flops, AmountText);
    const auto of_trace = [&](const MeasuredRow& side, const std::string* group) {
      ForNumbers(side, [&](const char* name, ordered_json value) {
        add({"", name, "", TextTable::kRight, group}, {std::move(value), ""});
      });
    };
    if (named) {
      const ordered_json members = stats_.names->Members(row.row);
      for (const auto& [name, value] : members.items()) add({"", name}, {value, ""});
    }
    of_trace(row.a, &a_group_);
    of_trace(row.b, &b_group_);
    ReportColumn label = {stats_.title, "", "", TextTable::kLeft, nullptr, /*clips=*/true};
    add(std::move(label), named ? stats_.names->Text(row.row) : "");
    return cells;
  }

  static std::string LevelText(int level) { return level == kAnyLevel ? "*" : std::to_string(level); }

  std::vector<ReportColumn> Columns() const {
    std::vector<ReportColumn> columns;
    const bool named = !diff_.rows.empty();
    for (Cell& each : CellsOf(named ? diff_.rows[0] : RowDifference(), named))
      columns.push_back(std::move(each.column));
    return columns;
  }

  void AddRow(const RowDifference& row, ReportWriter* report) const {
    std::vector<ReportCell> cells;
    for (Cell& each : CellsOf(row, true)) cells.push_back(std::move(each.cell));
    report->AddRow(cells);
  }

  const RepeatedStats& stats_;
  TimeDiff diff_;
  const DiffOptions& options_;
  const TimeReportOptions& time_;
  const GateResults& gates_;
  std::ostream& out_;
  // The groups of JSON: their addresses tell them apart.
  const std::string a_group_, b_group_;
  uint64_t not_shown_ = 0;
  bool levels_ = false;  // the rows that are shown are of several
};

}  // namespace

const Choices<TimeSort>& TimeSorts() {
  static const Choices<TimeSort> sorts("cannot sort by", {{"delta", TimeSort::kDelta},
                                                          {"ratio", TimeSort::kRatio},
                                                          {"calls", TimeSort::kCalls},
                                                          {"device", TimeSort::kDevice},
                                                          {"memory", TimeSort::kMemory},
                                                          {"name", TimeSort::kName}});
  return sorts;
}

absl::StatusOr<bool> WriteTimeDiff(Trace* a, Trace* b, const DiffOptions& options,
                                   const TimeReportOptions& time_options, std::ostream* out,
                                   std::vector<std::string>* notes) {
  const std::vector<StatsTrace> traces = {{a, options.a_name}, {b, options.b_name}};
  const absl::StatusOr<RepeatedStats> stats = RepeatStats(traces, time_options.stats);
  if (!stats.ok()) return stats.status();
  *notes = stats->notes;
  TimeDiff diff = CompareTimes(*stats, {.rows_are_steps = time_options.stats.grouping.by == StatsBy::kStep,
                                        .skip_steps = time_options.stats.skip_steps,
                                        .compare_counts = options.compare_counts});
  const auto lacks = [&](bool has, const char* what, const char* instead) {
    return has ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat("cannot sort by ", what, ": not in both traces; ", instead));
  };
  absl::Status sorts;
  if (time_options.sort == TimeSort::kDevice) {
    sorts = lacks(diff.numbers.device, "device time", "record it with torchtrace run --device-times");
  } else if (time_options.sort == TimeSort::kMemory) {
    sorts = lacks(diff.numbers.memory, "memory", "record it with torchtrace run --memory");
  }
  if (!sorts.ok()) return sorts;
  GateResults gates;
  const bool of_configs =
      std::any_of(options.gates.begin(), options.gates.end(), [](const Gate& gate) { return !gate.of_times(); });
  if (of_configs) {
    CommonConfigs configs;
    const absl::StatusOr<ConfigDiff> config_diff = CompareConfigs(time_options.a_configs, time_options.b_configs,
                                                                  options.scope, /*compare_counts=*/false, &configs);
    if (!config_diff.ok()) return config_diff.status();
    if (absl::Status s = CheckConfigGates(options.gates, *config_diff, configs, &gates); !s.ok()) return s;
  }
  const GatedTrace gated_a = {a, options.a_name}, gated_b = {b, options.b_name};
  if (absl::Status s = CheckTimeGates(options.gates, *stats, diff, gated_a, gated_b, &gates); !s.ok()) return s;
  FindIncomplete(gated_a, gated_b, &gates);
  if (options.format == DiffFormat::kJunit) {
    WriteGatesJunit(gates, options.a_name, options.b_name, out);
    return gates.fired();
  }
  // A failed write shows in the stream.
  TimeReport(*stats, std::move(diff), options, time_options, gates, out).Write().IgnoreError();
  return gates.fired();
}

}  // namespace torchtrace
