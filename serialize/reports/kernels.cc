// Which kernels, copies and memsets devices ran: `torchtrace stats --by kernel`.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "serialize/base/matching.h"
#include "serialize/base/saturating.h"
#include "serialize/forms/forms.h"
#include "serialize/model/device_work.h"
#include "serialize/model/torch_types.h"
#include "serialize/reports/report_table.h"
#include "serialize/reports/reports.h"
#include "serialize/reports/shapes.h"
#include "serialize/trace/collective_traits.h"
#include "serialize/trace/launched_work.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

struct WorkUse {
  uint64_t count = 0;
  int64_t ns = 0;
  uint64_t bytes = 0;

  void Add(const WorkUse& other) {
    count += other.count;
    AddSaturating(other.ns, &ns);
    AddSaturating(other.bytes, &bytes);
  }
};

// A collective whose kernels have rows of their own.
struct Collective {
  std::string operation;  // empty: none
  std::string group;
  std::optional<int64_t> ranks = {};
  uint64_t bytes = 0;

  std::string Text() const {
    if (operation.empty()) return "";
    return absl::StrCat("  ", operation, group.empty() ? "" : absl::StrCat(" of group ", group),
                        ranks.has_value() ? absl::StrCat(", ", *ranks, *ranks == 1 ? " rank" : " ranks") : "");
  }
};

class KernelReport {
 public:
  KernelReport(const std::vector<StatsTrace>& traces, const StatsOptions& options, std::ostream* out)
      : traces_(traces),
        options_(options),
        out_(out),
        side_by_side_(traces.size() > 1 && !options.sum),
        sort_(options.sort.value_or(StatsSort::kDevice)),
        filter_(options.filter) {}

  absl::Status Run() {
    if (!options_.times || options_.all_times || options_.numbers || options_.shape_rules != nullptr ||
        !options_.ignore.empty()) {
      return absl::InvalidArgumentError(
          "kernels have no other columns: leave out --no-times, --times, --numbers, --flops and --ignore");
    }
    if (sort_ != StatsSort::kDevice && sort_ != StatsSort::kCalls && sort_ != StatsSort::kName &&
        sort_ != StatsSort::kBytes) {
      return absl::InvalidArgumentError("kernels are sorted by device, calls, name or bytes");
    }
    absl::Status lacks;
    for (size_t i = 0; i < traces_.size(); ++i) {
      lacks.Update(CheckWeight(*traces_[i].trace, TreeWeight::kDevice, traces_[i].name));
      known_.push_back(HasDeviceTimes(*traces_[i].trace));
      if (!known_.back()) continue;
      if (absl::Status s = Add(i); !s.ok()) return s;
    }
    if (std::find(known_.begin(), known_.end(), true) == known_.end()) return lacks;
    Sort();
    return Write();
  }

 private:
  struct Row {
    std::string name;
    const char* kind = nullptr;
    Collective collective;
    WorkUse all;
    std::vector<WorkUse> traces;          // side by side
    std::map<std::string, int64_t> apis;  // what launched it, with the times
  };

  absl::Status Add(size_t number) {
    Trace* const trace = traces_[number].trace;
    SumOptions sums;
    sums.row = [&](ConfigId id) {
      const ConfigHead head = ReadConfigHead(trace->identity(id));
      const std::vector<int>& levels = options_.levels;
      const bool of_level = levels.empty() || std::find(levels.begin(), levels.end(), head.level) != levels.end();
      return of_level && filter_.Accepts(head.api) ? 0 : kNoRow;
    };
    if (options_.ChoosesCalls()) sums.selection = &options_;
    sums.device = true;
    sums.trace = number;
    WorkNames names(*trace);
    std::map<std::pair<uint32_t, ConfigId>, Collective> collectives;  // by process: ranks are those of its run
    absl::flat_hash_set<std::pair<uint64_t, const Row*>> counted;     // calls of collectives
    sums.work = [&](const CallRecord& call, const DeviceWork& work) {
      const auto [at, fresh] = collectives.try_emplace({call.process, call.config});
      if (fresh) at->second = CollectiveOf(*trace, call);
      const bool of_collective = work.kind == DeviceWork::kKernel && !at->second.operation.empty();
      Row& one = RowOf(names.Of(call.process, work), work.kind, of_collective ? at->second : Collective());
      WorkUse use = {1, work.duration_ns, work.bytes};
      // A collective may run a kernel several times for the same bytes.
      if (of_collective) use.bytes = counted.emplace(call.call, &one).second ? at->second.bytes : 0;
      one.all.Add(use);
      if (side_by_side_) one.traces[number].Add(use);
      AddSaturating(work.duration_ns, &one.apis[std::string(ReadConfigHead(trace->identity(call.config)).api)]);
    };
    return SumCalls(trace, sums).status();
  }

  static Collective CollectiveOf(const Trace& trace, const CallRecord& call) {
    const CollectiveTraits traits = CollectiveTraitsOf(ReadableConfig(trace.identity(call.config)));
    if (traits.kind == CollectiveTraits::kNone) return {};
    Collective collective = {traits.operation, traits.group};
    if (traits.group == kDefaultGroup) collective.ranks = trace.processes()[call.process].known.ranked.world_size;
    // Tensors of several dtypes have no size that is known here.
    if (traits.elements > 0) collective.bytes = static_cast<uint64_t>(traits.elements) * BytesOfDtype(traits.dtypes);
    return collective;
  }

  Row& RowOf(const std::string& name, DeviceWork::Kind kind, const Collective& collective) {
    const auto [at, fresh] =
        index_.try_emplace({name, kind, collective.operation, collective.group, collective.ranks}, rows_.size());
    if (fresh) {
      rows_.push_back({name, DeviceWorkName(kind), collective, {}, {}, {}});
      if (side_by_side_) rows_.back().traces.resize(traces_.size());
    }
    return rows_[at->second];
  }

  void Sort() {
    const auto amount = [this](const Row& row) -> uint64_t {
      switch (sort_) {
        case StatsSort::kDevice:
          return static_cast<uint64_t>(row.all.ns);
        case StatsSort::kCalls:
          return row.all.count;
        case StatsSort::kBytes:
          return row.all.bytes;
        default:
          return 0;
      }
    };
    std::stable_sort(rows_.begin(), rows_.end(), [&](const Row& a, const Row& b) {
      if (amount(a) != amount(b)) return amount(a) > amount(b);
      return a.name < b.name;
    });
    totals_.resize(traces_.size());
    for (const Row& row : rows_) {
      all_.Add(row.all);
      for (size_t i = 0; i < row.traces.size(); ++i) totals_[i].Add(row.traces[i]);
    }
  }

  absl::Status Write() const {
    ReportWriter report(options_.format, out_, options_.screen, /*rows_fit=*/!options_.top.has_value());
    report.AddLine(absl::StrCat(Counted(all_.count, "kernel, copy or memset", "kernels, copies and memsets"), " of ",
                                Counted(rows_.size(), "name", "names"),
                                traces_.size() > 1 ? absl::StrCat(" in ", traces_.size(), " traces") : "",
                                ", device time ", FormatDuration(all_.ns)));
    report.AddMembers({{"total_count", all_.count}, {"total_device_ns", all_.ns}});
    std::vector<ReportColumn> columns = {{"", "kernel", "kernel"},       {"", "kind", "kind"},
                                         {"", "operation", "operation"}, {"", "group", "group"},
                                         {"", "ranks", "ranks"},         {"", "api", "api"}};
    const auto add_numbers = [&](bool shown, const std::string* trace) {
      AddNumbers({}, {}, /*known=*/true, [&](const char* title, const char* name, const ReportCell&) {
        columns.push_back({shown ? title : "", name, name, TextTable::kRight, trace});
      });
    };
    add_numbers(!side_by_side_, nullptr);
    if (side_by_side_) {
      for (const StatsTrace& trace : traces_) add_numbers(true, &trace.name);
    }
    columns.push_back({"kernel", "", "", TextTable::kLeft, nullptr, /*clips=*/true});
    const uint64_t top =
        options_.top.value_or(IsForPeople(options_.format) ? RowsOnAScreen(1, options_.screen.lines) : 0);
    const size_t shown = top > 0 ? std::min<size_t>(top, rows_.size()) : rows_.size();
    report.BeginTable("kernels", columns);
    for (size_t i = 0; i < shown; ++i) AddRow(rows_[i], &report);
    report.EndTable(rows_.size() - shown);
    return report.Finish("the statistics");
  }

  void AddRow(const Row& row, ReportWriter* report) const {
    const auto api = std::max_element(row.apis.begin(), row.apis.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto text_or_null = [](const std::string& text) {
      return text.empty() ? ReportCell(nullptr, "") : ReportCell(text);
    };
    const Collective& of = row.collective;
    std::vector<ReportCell> cells = {row.name,
                                     std::string(row.kind),
                                     text_or_null(of.operation),
                                     text_or_null(of.group),
                                     of.ranks.has_value() ? ReportCell(*of.ranks) : ReportCell(nullptr, ""),
                                     api->first};
    const auto add = [&](const char*, const char*, ReportCell cell) { cells.push_back(std::move(cell)); };
    AddNumbers(row.all, all_, /*known=*/true, add);
    for (size_t i = 0; i < row.traces.size(); ++i) AddNumbers(row.traces[i], totals_[i], known_[i], add);
    cells.emplace_back(absl::StrCat(FormatApi(row.name), of.Text(), "  by ", FormatApi(api->first)));
    report->AddRow(cells);
  }

  template <typename Add>
  static void AddNumbers(const WorkUse& use, const WorkUse& totals, bool known, const Add& add) {
    const auto add_if = [&add](bool shown, const char* title, const char* name, const ReportCell& cell) {
      add(title, name, shown ? cell : ReportCell(nullptr, "-"));
    };
    add_if(known, "count", "count", use.count);
    add_if(known, "device", "device_ns", TimeCell(use.ns));
    add_if(known, "device %", "device_percent",
           PercentCell(static_cast<uint64_t>(use.ns), static_cast<uint64_t>(totals.ns)));
    add_if(known, "mean", "mean_ns", TimeCell(use.ns / static_cast<int64_t>(std::max<uint64_t>(use.count, 1))));
    const auto bytes = static_cast<double>(use.bytes);
    const bool moved = use.bytes > 0 && use.ns > 0;
    add_if(use.bytes > 0, "bytes", "bytes", ReportCell(use.bytes, FormatAmount(bytes)));
    const double rate = moved ? bytes * 1e9 / static_cast<double>(use.ns) : 0;
    add_if(moved, "GB/s", "bytes_per_s", ReportCell(rate, absl::StrFormat("%.4g", rate / 1e9)));
  }

  const std::vector<StatsTrace>& traces_;
  const StatsOptions& options_;
  std::ostream* const out_;
  const bool side_by_side_;
  const StatsSort sort_;
  GlobMemo filter_;
  std::map<std::tuple<std::string, DeviceWork::Kind, std::string, std::string, std::optional<int64_t>>, size_t> index_;
  std::deque<Row> rows_;
  WorkUse all_;
  std::vector<WorkUse> totals_;  // by trace
  std::vector<bool> known_;      // whether each trace has device times
};

}  // namespace

absl::Status WriteKernels(const std::vector<StatsTrace>& traces, const StatsOptions& options, std::ostream* out) {
  return KernelReport(traces, options, out).Run();
}

}  // namespace torchtrace
