#include "cmd/diff_times.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cmd/cli/terminal.h"
#include "serialize/diff/gates.h"
#include "serialize/reports/reports.h"
#include "serialize/reports/stats_rows.h"

namespace torchtrace {
namespace {

// Of StatsGroupingNames, those whose rows two traces may have in common.
std::vector<std::string> ComparedGroupings() {
  std::vector<std::string> names;
  for (const StatsGroupingTraits& grouping : StatsGroupings()) {
    if (grouping.of_one_trace || grouping.by == StatsBy::kKernel || grouping.by == StatsBy::kTag) continue;
    names.emplace_back(grouping.name);
  }
  return names;
}

}  // namespace

void TimeFlags::AddTo(App* app) {
  app->add_flag("--time", times_, "What each row took per step: what differs by more than noise")->group("Time");
  by_option_ =
      app->add_option("--by", by_,
                      "What a row is, as of stats: api, config, family, shapes, graph, level, rank, label, line, "
                      "module, step or tag:NAME (default: api)")
          ->option_text("WHAT")
          ->check(
              Completed(Checked([](const std::string& text) { return ParseStatsGrouping(text); }), ComparedGroupings))
          ->group("Time");
  sort_option_ =
      app->add_option("--sort", sort_,
                      "The largest difference first: delta (of time), ratio, calls, device, memory; or name (default: "
                      "delta)")
          ->option_text("ORDER")
          ->check(OneOf(TimeSorts()))
          ->group("Time");
  app->add_option("--fail-on", fail_on_,
                  "Exit with 1 only if one of these fires (a list with commas): added-api, added-config, removed-api, "
                  "removed-config, slower=10%, memory=5%, flops=1%")
      ->option_text("GATES")
      ->allow_extra_args(false)
      ->check(CompletedLists(Checked([](const std::string& text) { return ParseGates({text}); }), GateExamples))
      ->group("Gates");
  app->add_option("--only", only_, "Show only what is added, removed or changed (a list with commas)")
      ->option_text("WHICH")
      ->allow_extra_args(false)
      ->check(CompletedLists(Checked([](const std::string& text) { return ParseDiffParts({text}); }), DiffPartNames))
      ->group("Gates");
}

std::string TimeFlags::Given() const {
  return times_ ? "--time" : !fail_on_.empty() ? "--fail-on" : !only_.empty() ? "--only" : "";
}

absl::Status TimeFlags::Check(DiffFormat format) {
  absl::StatusOr<std::vector<Gate>> gates = ParseGates(fail_on_);
  if (!gates.ok()) return gates.status();
  gates_ = *std::move(gates);
  times_ = times_ || std::any_of(gates_.begin(), gates_.end(), [](const Gate& gate) { return gate.of_times(); });
  for (const Option* const option : {by_option_, sort_option_}) {
    if (*option && !times_) {
      return absl::InvalidArgumentError(absl::StrCat("--", option->long_name(), " needs --time, or a gate of times"));
    }
  }
  if (format == DiffFormat::kJunit && gates_.empty()) {
    return absl::InvalidArgumentError("--format junit has a test case for each gate: give some with --fail-on");
  }
  return absl::OkStatus();
}

void TimeFlags::Apply(DiffOptions* options) const {
  options->gates = gates_;
  options->only = *ParseDiffParts(only_);
}

absl::StatusOr<bool> TimeFlags::Write(const std::string& a_path, const std::string& b_path, Trace* a, Trace* b,
                                      CallSelectionOptions* selection, const DiffOptions& options,
                                      std::optional<uint64_t> top, ReadingProgress* progress, std::ostream* out,
                                      std::vector<std::string>* notes) const {
  TimeReportOptions times;
  selection->Apply(&times.stats);
  times.stats.grouping = *ParseStatsGrouping(by_);
  times.stats.ignore = options.scope.coarsening;
  times.stats.costs =
      std::any_of(gates_.begin(), gates_.end(), [](const Gate& gate) { return gate.kind == GateKind::kFlops; });
  times.sort = *TimeSorts().Parse(sort_);
  times.top = top;
  if (const size_t lines = TerminalLines(); lines > 0) times.screen = {TerminalWidth(), lines};
  times.a_configs = a;
  times.b_configs = b;
  std::unique_ptr<Trace> a_selected, b_selected;
  const bool of_configs = std::any_of(gates_.begin(), gates_.end(), [](const Gate& gate) { return !gate.of_times(); });
  if (of_configs && selection->ChoosesCalls()) {
    absl::StatusOr<std::unique_ptr<Trace>> selected = selection->Open(a_path, progress);
    if (!selected.ok()) return selected.status();
    a_selected = *std::move(selected);
    selected = selection->Open(b_path, progress);
    if (!selected.ok()) return selected.status();
    b_selected = *std::move(selected);
    times.a_configs = a_selected.get();
    times.b_configs = b_selected.get();
  }
  return WriteTimeDiff(a, b, options, times, out, notes);
}

}  // namespace torchtrace
