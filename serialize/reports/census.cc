#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/reports/report_table.h"
#include "serialize/reports/reports.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

struct CensusTally {
  uint64_t inside = 0;
  uint64_t outside = 0;

  uint64_t calls() const { return inside + outside; }
  void Add(const CensusTally& other) {
    inside += other.inside;
    outside += other.outside;
  }
};

struct CensusThread {
  const StatsTrace* trace;
  uint32_t process_index;
  uint64_t number;
  FirstCall first;
  std::string process;
  std::string name;
  CensusTally all;
  std::vector<CensusTally> operators;  // by index into operators_; may be shorter
  // Depth of the outermost open call of level 1.
  std::optional<uint32_t> api_depth;

  // Autograd's own threads; on the CPU the backward pass runs on the thread that asks for it.
  bool backward() const { return absl::StartsWith(name, "pt_autograd"); }
};

class Census {
 public:
  Census(const std::vector<StatsTrace>& traces, const CensusOptions& options, std::ostream* out)
      : traces_(traces),
        options_(options),
        out_(out),
        top_(options.top.value_or(IsForPeople(options.format) ? RowsOnAScreen(2, options.screen.lines) : 0)),
        filter_(options.filter) {}

  absl::Status Run() {
    for (size_t i = 0; i < traces_.size(); ++i) {
      if (absl::Status s = Add(i); !s.ok()) return s;
    }
    Sort();
    return Write();
  }

 private:
  static constexpr uint32_t kNoOperator = UINT32_MAX;

  struct Operator {
    std::string api;
    CensusTally all;
  };
  struct ConfigKind {
    int level = 0;
    uint32_t index = kNoOperator;  // into operators_
  };

  absl::Status Add(size_t number) {
    const StatsTrace& trace = traces_[number];
    std::vector<ConfigKind> kinds;
    const size_t first_thread = threads_.size();
    absl::flat_hash_map<std::pair<uint32_t, uint32_t>, size_t> index;  // into threads_
    std::pair<uint32_t, uint32_t> last_key;
    size_t last = SIZE_MAX;
    const absl::Status read = trace.trace->ReadThreads([&](const CallRecord& call) {
      // Whether it was inside of others isn't known.
      if (call.thread == kNoThread) return;
      const std::pair<uint32_t, uint32_t> key(call.process, call.thread);
      if (last == SIZE_MAX || key != last_key) {
        const auto [at, fresh] = index.try_emplace(key, threads_.size());
        if (fresh) {
          threads_.push_back(
              {&trace, call.process, call.thread, {number, trace.trace->OrderOf(call)}, "", "", {}, {}, {}});
        }
        last = at->second;
        last_key = key;
      }
      CensusThread& thread = threads_[last];
      for (auto id = static_cast<ConfigId>(kinds.size()); id <= call.config; ++id) {
        kinds.push_back(KindOf(ReadConfigHead(trace.trace->identity(id))));
      }
      // A record at the same depth or above means that this call is no longer open.
      if (thread.api_depth.has_value() && call.depth <= *thread.api_depth) thread.api_depth.reset();
      if (call.kind != CallRecord::kEnter) return;
      const ConfigKind& kind = kinds[call.config];
      if (kind.level == kFunctionLevel && !thread.api_depth.has_value()) thread.api_depth = call.depth;
      if (kind.index == kNoOperator) return;
      if (kind.index >= thread.operators.size()) thread.operators.resize(operators_.size());
      CensusTally& tally = thread.operators[kind.index];
      (thread.api_depth.has_value() ? tally.inside : tally.outside) += call.count;
    });
    if (!read.ok()) return read;
    for (size_t i = first_thread; i < threads_.size(); ++i) NameThread(&threads_[i]);
    return CheckLevels(trace);
  }

  ConfigKind KindOf(const ConfigHead& head) {
    if (head.level != kDispatchLevel || !filter_.Accepts(head.api)) return {head.level, kNoOperator};
    const auto [at, fresh] = operator_index_.try_emplace(std::string(head.api), operators_.size());
    if (fresh) operators_.push_back({std::string(head.api), {}});
    return {head.level, static_cast<uint32_t>(at->second)};
  }

  // By the requested levels, or, if the metadata doesn't say, by those of the calls.
  static absl::Status CheckLevels(const StatsTrace& trace) {
    const std::vector<int> levels = RecordedLevels(*trace.trace);
    const auto has = [&](int level) { return std::find(levels.begin(), levels.end(), level) != levels.end(); };
    if (has(kFunctionLevel) && has(kDispatchLevel)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        trace.name, levels.empty() ? " has no calls" : absl::StrCat(" has only level ", absl::StrJoin(levels, ", ")),
        ": a census compares level 2 with level 1; record with --levels 1,2"));
  }

  static void NameThread(CensusThread* thread) {
    const ProcessInfo& process = thread->trace->trace->processes()[thread->process_index];
    thread->process = ProcessName(process);
    if (const ThreadInfo* const info = FindThread(process, thread->number)) thread->name = info->name;
  }

  void Sort() {
    std::sort(threads_.begin(), threads_.end(),
              [](const CensusThread& a, const CensusThread& b) { return a.first < b.first; });
    for (CensusThread& thread : threads_) {
      for (size_t i = 0; i < thread.operators.size(); ++i) {
        operators_[i].all.Add(thread.operators[i]);
        thread.all.Add(thread.operators[i]);
      }
      totals_.Add(thread.all);
    }
    for (uint32_t i = 0; i < operators_.size(); ++i) {
      if (operators_[i].all.calls() > 0) order_.push_back(i);
    }
    std::sort(order_.begin(), order_.end(), [this](uint32_t a, uint32_t b) {
      const Operator& left = operators_[a];
      const Operator& right = operators_[b];
      if (left.all.outside != right.all.outside) return left.all.outside > right.all.outside;
      if (left.all.inside != right.all.inside) return left.all.inside > right.all.inside;
      return left.api < right.api;
    });
    operator_count_ = order_.size();
    if (top_ > 0 && order_.size() > top_) order_.resize(top_);
  }

  std::string ThreadLabel(const CensusThread& thread) const {
    return absl::StrCat(traces_.size() > 1 ? thread.trace->name + " " : "", thread.process, " thread ", thread.number,
                        thread.name.empty() ? "" : " " + FormatApi(thread.name),
                        thread.backward() ? " (backward)" : "");
  }

  absl::Status Write() const {
    ReportWriter report(options_.format, out_, options_.screen);
    report.AddLine(absl::StrCat(Counted(totals_.calls(), "call", "calls"), " of level 2: ", totals_.inside,
                                " inside a call of level 1, ", totals_.outside, " outside (",
                                FormatPercent(totals_.outside, totals_.calls()), "), which level 1 did not see"));
    report.AddMembers({{"total_calls", totals_.calls()}, {"inside", totals_.inside}, {"outside", totals_.outside}});

    report.BeginTable("operators",
                      WithTally({{"operator", "api", "", TextTable::kLeft, nullptr, /*clips=*/true}}, /*csv=*/false));
    for (const uint32_t i : order_) report.AddRow(WithTally({ApiCell(operators_[i].api)}, operators_[i].all));
    report.EndTable(operator_count_ - order_.size());

    // CSV has a row for each operator on each thread.
    report.BeginTable("threads", WithTally({{"thread", "", "", TextTable::kLeft, nullptr, /*clips=*/true},
                                            {"", "", "operator"},
                                            {"", traces_.size() > 1 ? "trace" : "", "trace"},
                                            {"", "process", "process"},
                                            {"", "thread", "thread"},
                                            {"", "name", "thread_name"},
                                            {"", "backward", "backward"}},
                                           /*csv=*/true));
    const auto add = [&](const CensusThread& thread, const std::string& api, const CensusTally& tally) {
      if (tally.calls() == 0) return;
      report.AddRow(WithTally(
          {ThreadLabel(thread), api, thread.trace->name, thread.process, thread.number, thread.name, thread.backward()},
          tally));
    };
    const size_t most = top_ > 0 && IsForPeople(options_.format) ? top_ : threads_.size();
    size_t shown = 0;
    if (options_.format == StatsFormat::kCsv) {
      for (const uint32_t i : order_) {
        for (const CensusThread& thread : threads_) {
          if (i < thread.operators.size()) add(thread, operators_[i].api, thread.operators[i]);
        }
      }
    } else {
      for (const CensusThread& thread : threads_) {
        if (shown++ < most) add(thread, "", thread.all);
      }
    }
    report.EndTable(threads_.size() - std::min(most, threads_.size()));
    return report.Finish("the census");
  }

  static std::vector<ReportColumn> WithTally(std::vector<ReportColumn> columns, bool csv) {
    for (const char* name : {"calls", "inside", "outside"}) columns.push_back({name, name, csv ? name : ""});
    columns.push_back({"outside %", "percent_outside"});
    return columns;
  }

  static std::vector<ReportCell> WithTally(std::vector<ReportCell> cells, const CensusTally& tally) {
    for (const uint64_t calls : {tally.calls(), tally.inside, tally.outside}) cells.emplace_back(calls);
    cells.push_back(PercentCell(tally.outside, tally.calls()));
    return cells;
  }

  const std::vector<StatsTrace>& traces_;
  const CensusOptions& options_;
  std::ostream* const out_;
  const uint64_t top_;
  GlobMemo filter_;
  std::vector<Operator> operators_;
  absl::flat_hash_map<std::string, size_t> operator_index_;
  std::vector<CensusThread> threads_;  // by first call
  std::vector<uint32_t> order_;        // of the operators that are shown
  size_t operator_count_ = 0;
  CensusTally totals_;
};

}  // namespace

absl::Status WriteCensus(const std::vector<StatsTrace>& traces, const CensusOptions& options, std::ostream* out) {
  return Census(traces, options, out).Run();
}

}  // namespace torchtrace
