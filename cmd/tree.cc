// `torchtrace tree`.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/cli/terminal.h"
#include "cmd/reading/reading_options.h"
#include "serialize/forms/call_labels.h"
#include "serialize/reports/reports.h"

namespace torchtrace {
namespace {

// Lines of a screen for titles, threads, what was left out.
constexpr size_t kLinesAroundTree = 5;

constexpr char kTreeFooter[] =
    "Examples:\n"
    "  torchtrace tree out --depth 3\n"
    "  torchtrace tree out --by module --min-time 1ms\n"
    "  torchtrace tree out --where 'tag(step) = 3'\n"
    "  torchtrace tree out --level 3,4 --backward-at-forward";

const Choices<bool>& FirstCalledFirst() {
  static const Choices<bool> orders("cannot sort by", {{"time", false}, {"first", true}});
  return orders;
}

int RunTree(const std::vector<std::string>& args) {
  std::string path, by = "api", format = "text", sort = "time", weight = "time", min_time;
  bool all = false, imports = false, quiet = false;
  TreeOptions options;
  CallSelectionOptions selection;
  TextOptions text;
  const auto app = MakeApp(kTreeCommand, "[OPTIONS] TRACE", kTreeFooter);
  app->add_option("TRACE", path, kTraceText)->required();
  app->add_option("--by", by,
                  "What a node is: api (all calls), module (of level 3), or line (of the program; needs run "
                  "--stacks) (default: api)")
      ->option_text("WHAT")
      ->check(OneOf(LabelKinds()));
  app->add_option("--depth", options.depth, "Show nodes at most N deep")
      ->option_text("N")
      ->check(IsCount(1, UINT32_MAX));
  app->add_option("--min-time", min_time, "Only nodes that took at least this long in total: 50us, 1.5ms, 2s")
      ->option_text("TIME")
      ->check(Checked([](const std::string& text) { return ParseNanoseconds(text); }));
  app->add_flag(
      "--all", all,
      "All nodes; otherwise a terminal gets one screen of the slowest, unless --depth or --min-time is given");
  app->add_flag(
      "--imports", imports,
      "Show what imports call (text; JSON always does); otherwise a library's are one node, \"(import torch)\"");
  app->add_option(
         "--weight", weight,
         "What nodes show, and are sorted by: time, device (time), memory (allocated) or flops (default: time)")
      ->option_text("WHAT")
      ->check(OneOf(TreeWeights()));
  app->add_option("--sort", sort,
                  "Which child comes first: time (the longest) or first (the first called) (default: time)")
      ->option_text("ORDER")
      ->check(OneOf(FirstCalledFirst()));
  app->add_flag(
      "--backward-at-forward", options.backward_at_forward,
      "Show backward calls, and their time, under the forward call or module that they belong to (level 4, or 2 "
      "with 3)");
  selection.AddTo(app.get());
  AddQuiet(app.get(), &quiet);
  app->add_option("--format", format, "text or json (default: text)")
      ->option_text("FORMAT")
      ->check(OneOf(TextOrJson()));
  text.AddTo(app.get());
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  options.by = *LabelKinds().Parse(by);
  if (!min_time.empty()) options.min_time_ns = *ParseNanoseconds(min_time);
  options.first_called_first = *FirstCalledFirst().Parse(sort);
  options.weight = *TreeWeights().Parse(weight);
  selection.Apply(&options.calls);
  options.json = *TextOrJson().Parse(format);
  options.imports = imports || options.json;
  options.color = text.UsesColor();
  options.width = TerminalWidth();
  // Options that limit the tree turn the limit of a screen off.
  const size_t lines = TerminalLines();
  if (!all && options.depth == UINT32_MAX && min_time.empty() && lines > 0)
    options.max_nodes = lines - kLinesAroundTree;

  ReadingProgress progress(quiet);
  if (absl::Status s = selection.CheckNames({path}, &progress); !s.ok()) return Fail(kExitTrouble, s);
  const absl::StatusOr<std::unique_ptr<Trace>> trace = progress.Open(path);
  if (!trace.ok()) return Fail(kExitTrouble, trace.status());
  Remarks remarks(&selection);
  int exit_code;
  {
    const Pager pager(!text.no_pager);
    StandardOutput out(options.color ? StandardOutput::kColoredText : StandardOutput::kText, pager.fd());
    const absl::Status written = WriteTree(trace->get(), options, &out);
    if (written.ok()) remarks.Add(path, **trace);
    exit_code = out.Finish(written.ok() ? remarks.Check() : written);
  }
  if (exit_code == kExitOk) remarks.Tell(quiet);
  return exit_code;
}

}  // namespace

const Command kTreeCommand = {"tree", "Show what called what, folded, with times", "Read", RunTree};

}  // namespace torchtrace
