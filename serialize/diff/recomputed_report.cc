#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/diff/call_sequences.h"
#include "serialize/diff/recomputed_diff.h"
#include "serialize/diff/reports.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/numbers/later_notes_reader.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// What is shown without --all.
constexpr size_t kRegionsShown = 5;
constexpr size_t kDifferencesShown = 5;

const char* NameOf(CheckpointMark mark) {
  switch (mark) {
    case CheckpointMark::kStacks:
      return "stacks";
    case CheckpointMark::kGradMode:
      return "gradient mode";
    case CheckpointMark::kModules:
      return "modules";
    case CheckpointMark::kNone:
      break;
  }
  return "nothing";
}

class RecomputedReport {
 public:
  RecomputedReport(const Trace& trace, const Recomputations& found, const OneTraceDiffOptions& options)
      : trace_(trace),
        found_(found),
        options_(options),
        stack_text_(trace),
        several_models_(SeveralModels::In(trace)),
        several_threads_(trace.processes().size() > 1) {}

  void WriteText(std::ostream* out) {
    const size_t shown = options_.all ? found_.differing().size() : std::min(found_.differing().size(), kRegionsShown);
    for (size_t i = 0; i < shown; ++i) WriteRegion(found_.differing()[i], out);
    if (found_.different() > shown) {
      *out << "... and " << Counted(found_.different() - shown, "more region that differs", "more regions that differ")
           << "\n\n";
    }
    *out << Summary() << "\n";
    out->flush();
  }

  void WriteJson(std::ostream* out) {
    ordered_json json = {{"different", found_.different() > 0},
                         {"trace", options_.name},
                         {"known_by", NameOf(found_.mark())},
                         {"recomputed", found_.found()},
                         {"differing", found_.different()},
                         {"without_forward", found_.without_forward()},
                         {"calls", found_.calls()},
                         {"calls_with_numbers", found_.numbers()},
                         {"kept", found_.kept()},
                         {"regions", ordered_json::array()}};
    for (const Recomputation& region : found_.differing()) {
      ordered_json one = {{"process", ProcessName(trace_.processes()[region.process])}, {"thread", region.thread}};
      one["module"] = region.module == kLostId ? ordered_json() : ordered_json(ModuleText(region.module));
      AddPlace(region.stack, &one);
      one["forward"] = {region.forward_first, region.forward_last};
      one["recomputed"] = {region.again_first, region.again_last};
      one["differences"] = ordered_json::array();
      for (const CheckpointDifference& difference : region.differences) {
        if (!options_.all && one["differences"].size() >= kDifferencesShown) break;
        one["differences"].push_back({{"in", difference.fields},
                                      {"forward", StepJson(difference.forward)},
                                      {"recomputed", StepJson(difference.again)}});
      }
      one["difference_count"] = region.difference_count;
      json["regions"].push_back(std::move(one));
    }
    *out << DumpPrettyJson(json);
    out->flush();
  }

 private:
  std::string Summary() const {
    const uint64_t compared = found_.found() - found_.without_forward();
    std::string text =
        absl::StrCat(Counted(compared, "recomputed region", "recomputed regions"), ", ",
                     Counted(found_.calls(), "call", "calls"), " compared with the forward run",
                     found_.numbers() > 0 ? absl::StrCat(", ", found_.numbers(), " with numbers") : "", ": ");
    absl::StrAppend(&text, found_.different() == 0   ? "all the same"
                           : found_.different() == 1 ? "1 differs"
                                                     : absl::StrCat(found_.different(), " differ"));
    if (found_.kept() > 0) {
      absl::StrAppend(&text, "; ", Counted(found_.kept(), "operator wasn't", "operators weren't"),
                      " called again: selective checkpoints keep their results");
    }
    if (found_.without_forward() > 0) {
      absl::StrAppend(&text, "; of ",
                      Counted(found_.without_forward(), "other region, the forward run was",
                              "other regions, the forward runs were"),
                      " not found");
    }
    return text;
  }

  std::string ModuleText(ConfigId module) const {
    const ModuleLabel label = ModuleLabelOf(trace_.identity(module));
    return several_models_ ? label.WholeText() : label.Text();
  }

  std::string PlaceOf(StackId stack) const {
    return stack == kNoStack ? "" : stack_text_.Line(trace_.stacks().calling_line(stack));
  }

  void WriteRegion(const Recomputation& region, std::ostream* out) {
    const char* const bold = options_.color ? kBold : "";
    const char* const reset = options_.color ? kReset : "";
    const std::string name = region.module != kLostId ? ModuleText(region.module) : PlaceOf(region.stack);
    *out << bold << "recomputed" << (name.empty() ? "" : " ") << PlainLine(name) << reset << ": calls "
         << region.again_first << "-" << region.again_last << ", forward " << region.forward_first << "-"
         << region.forward_last;
    if (several_threads_) *out << ", " << PlainLine(DescribeThread(trace_, {region.process, region.thread}));
    *out << "\n";
    const size_t shown =
        options_.all ? region.differences.size() : std::min(region.differences.size(), kDifferencesShown);
    TextTable table({{"", TextTable::kLeft},
                     {"call"},
                     {"L"},
                     {"module", TextTable::kLeft},
                     {"line", TextTable::kLeft},
                     {"", TextTable::kLeft}});
    for (size_t i = 0; i < shown; ++i) {
      const CheckpointDifference& difference = region.differences[i];
      const std::string what = absl::StrJoin(difference.fields, ", ");
      if (difference.forward.has_value()) AddRow(what, "forward", *difference.forward, difference.again, &table);
      if (difference.again.has_value()) {
        AddRow(difference.forward.has_value() ? "" : what, "recomputed", *difference.again, difference.forward, &table);
      }
    }
    *out << table.Format();
    if (region.difference_count > shown) {
      *out << "... and " << Counted(region.difference_count - shown, "more difference", "more differences")
           << (region.differences.size() > shown ? " (--all shows them)" : "") << "\n";
    }
    *out << "\n";
  }

  void AddRow(const std::string& what, const char* run, const CheckpointStep& step,
              const std::optional<CheckpointStep>& other, TextTable* table) const {
    std::string call = FoldedConfigText(trace_, step.config);
    if (other.has_value() && step.fingerprint != 0 && other->fingerprint != 0 &&
        step.fingerprint != other->fingerprint) {
      if (!std::isnan(step.norm)) absl::StrAppend(&call, "  norm ", absl::StrFormat("%.6g", step.norm));
    }
    table->AddRow({absl::StrCat(what, what.empty() ? "" : ": ", run), absl::StrCat(step.call),
                   absl::StrCat(static_cast<int>(step.level)), step.module == kLostId ? "-" : ModuleText(step.module),
                   PlaceOf(step.stack), call});
  }

  void AddPlace(StackId stack, ordered_json* json) const {
    if (stack == kNoStack) return;
    const StackTable& stacks = trace_.stacks();
    const StackPlace& line = stacks.line(stacks.calling_line(stack));
    (*json)["file"] = std::string(stacks.code(line.code).file);
    (*json)["line"] = line.line;
    (*json)["function"] = std::string(stacks.code(line.code).function);
  }

  ordered_json StepJson(const std::optional<CheckpointStep>& step) const {
    if (!step.has_value()) return nullptr;
    ordered_json json = {{"call", step->call}, {"level", step->level}};
    json["module"] = step->module == kLostId ? ordered_json() : ordered_json(ModuleText(step->module));
    json["config"] = ConfigText(trace_, step->config);
    AddPlace(step->stack, &json);
    if (step->fingerprint != 0 && std::isfinite(step->norm)) json["norm"] = step->norm;
    return json;
  }

  const Trace& trace_;
  const Recomputations& found_;
  const OneTraceDiffOptions& options_;
  StackText stack_text_;
  const bool several_models_;
  const bool several_threads_;
};

}  // namespace

absl::StatusOr<bool> WriteRecomputedDiff(Trace* trace, const OneTraceDiffOptions& options, std::ostream* out) {
  // Names of threads, and the stacks' table, are known after it.
  if (const absl::StatusOr<std::vector<uint64_t>> counts = trace->Count(); !counts.ok()) return counts.status();
  constexpr char kHow[] = "record levels 1, 2 and 3 (torchtrace run --levels 1,2,3 --frames modules --stacks)";
  std::optional<Recomputations> recomputations;
  LaterNotesReader reader(trace);
  const absl::Status read = reader.ReadOnceOrTwice(
      [&]() -> absl::Status {
        recomputations.emplace(trace, &options.scope);
        if (recomputations->mark() != CheckpointMark::kNone) return absl::OkStatus();
        return absl::FailedPreconditionError(absl::StrCat("the trace doesn't tell what was recomputed: ", kHow));
      },
      [&](const CallRecord& record) {
        recomputations->Take(record);
        return absl::OkStatus();
      });
  if (!read.ok()) return read;
  Recomputations& found = *recomputations;
  found.End();
  if (const uint64_t counted = CountOnlyCounted(*trace); counted > 0) {
    return absl::FailedPreconditionError(absl::StrCat(CountedCalls(counted), ": --recomputed needs their order"));
  }
  if (found.found() == found.without_forward()) {
    return absl::FailedPreconditionError(
        found.found() == 0 ? "nothing was recomputed: the trace has no backward pass of a torch.utils.checkpoint"
                           : absl::StrCat("of ", Counted(found.found(), "recomputed region", "recomputed regions"),
                                          " the trace has no forward run: ", kHow));
  }
  RecomputedReport report(*trace, found, options);
  if (options.json) {
    report.WriteJson(out);
  } else {
    report.WriteText(out);
  }
  return found.different() > 0;
}

}  // namespace torchtrace
