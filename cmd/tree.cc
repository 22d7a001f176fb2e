// `torchtrace tree`.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/cli/terminal.h"
#include "cmd/reading/reading_options.h"
#include "serialize/forms/call_labels.h"
#include "serialize/reports/reports.h"

namespace torchtrace {
namespace {

// What fits on a screen of 50 lines with what stands around it.
constexpr uint64_t kScreenNodes = 40;

constexpr char kFooter[] =
    "Examples:\n"
    "  torchtrace tree out --depth 3\n"
    "  torchtrace tree out --by module --min-time 1ms\n"
    "  torchtrace tree out --level 3,4 --backward-at-forward";

absl::StatusOr<int64_t> ParseNanoseconds(const std::string& text) {
  absl::Duration duration;
  if (absl::ParseDuration(text, &duration) && duration >= absl::ZeroDuration() && duration < absl::Hours(1'000'000)) {
    return absl::ToInt64Nanoseconds(duration);
  }
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no time such as 50us, 1.5ms or 2s"));
}

const Choices<bool>& FirstCalledFirst() {
  static const Choices<bool> orders("cannot sort by", {{"time", false}, {"first", true}});
  return orders;
}

int Run(const std::vector<std::string>& args) {
  std::string path, by = "api", format = "text", sort = "time", color = "auto", min_time;
  bool all = false, no_pager = false, quiet = false;
  TreeOptions options;
  uint32_t thread = 0;
  CallFilterOptions filter;
  const auto app = MakeApp(kTreeCommand, "[OPTIONS] TRACE", kFooter);
  app->add_option("TRACE", path, kTraceText)->required();
  app->add_option("--by", by,
                  "What the tree is of: api (all calls), module (of level 3), or line (of the program; needs run "
                  "--stacks) (default: api)")
      ->option_text("WHAT")
      ->check(OneOf(LabelKinds()));
  app->add_option("--depth", options.depth, "Only N generations")->option_text("N")->check(IsCount(1, UINT32_MAX));
  app->add_option("--min-time", min_time, "Only what took so long in all, as 50us, 1.5ms or 2s")
      ->option_text("TIME")
      ->check(Checked([](const std::string& text) { return ParseNanoseconds(text); }));
  app->add_flag("--all", all, "All nodes; a terminal else gets a screen of those that took longest");
  app->add_option("--sort", sort,
                  "Which child comes first: time (the longest) or first (the first called) (default: time)")
      ->option_text("ORDER")
      ->check(OneOf(FirstCalledFirst()));
  app->add_flag("--backward-at-forward", options.backward_at_forward,
                "Show backward calls of level 4 under the forward call that they belong to");
  CLI::Option* const thread_option = app->add_option("--thread", thread, "Only threads of this number")
                                         ->option_text("N")
                                         ->check(IsCount(0, UINT32_MAX));
  filter.AddTo(app.get());
  AddQuiet(app.get(), &quiet);
  app->add_option("--format", format, "text or json (default: text)")
      ->option_text("FORMAT")
      ->check(OneOf(TextOrJson()));
  app->add_option("--color", color, "auto, always or never; NO_COLOR is honoured (default: auto)")
      ->option_text("WHEN")
      ->check(OneOf(Whens()));
  app->add_flag("--no-pager", no_pager, "Don't show it in $PAGER (or less) on a terminal");
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  options.by = *LabelKinds().Parse(by);
  if (!min_time.empty()) options.min_time_ns = *ParseNanoseconds(min_time);
  if (*thread_option) options.thread = thread;
  options.first_called_first = *FirstCalledFirst().Parse(sort);
  options.filter = filter.Globs();
  options.levels = filter.Levels();
  options.json = *TextOrJson().Parse(format);
  options.color = UseColor(*Whens().Parse(color));
  // Who says what to leave out gets the rest.
  if (!all && options.depth == UINT32_MAX && min_time.empty() && ForTerminal(When::kAuto))
    options.max_nodes = kScreenNodes;

  if (absl::Status s = filter.CheckNames({path}); !s.ok()) return Fail(kExitTrouble, s);
  ReadingProgress progress(quiet);
  const absl::StatusOr<std::unique_ptr<Trace>> trace = progress.Open(path);
  if (!trace.ok()) return Fail(kExitTrouble, trace.status());
  int exit_code;
  {
    const Pager pager(!no_pager);
    StandardOutput out(options.color ? StandardOutput::kColoredText : StandardOutput::kText, pager.fd());
    exit_code = out.Finish(WriteTree(trace->get(), options, &out));
  }
  if (exit_code == kExitOk) {
    Remarks remarks(&filter);
    remarks.Add(path, **trace);
    remarks.Tell(quiet);
  }
  return exit_code;
}

}  // namespace

const Command kTreeCommand = {"tree", "Show what called what, folded, with times", "Read", Run};

}  // namespace torchtrace
