// `torchtrace dump`.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/cli/terminal.h"
#include "cmd/reading/reading_options.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/reports/reports.h"

namespace torchtrace {
namespace {

constexpr char kDumpFooter[] =
    "Examples:\n"
    "  torchtrace dump out --calls 0-99\n"
    "  torchtrace dump out --slowest 20 --where 'dtype = float16'\n"
    "  torchtrace dump out --level 2 --include 'aten::*norm*'\n"
    "  torchtrace dump out --format jsonl | head";

constexpr char kAsRecorded[] = "recorded";

int RunDump(const std::vector<std::string>& args) {
  std::string path, format = "text", fold = "auto", stacks;
  bool quiet = false;
  DumpOptions options;
  CallSelectionOptions selection;
  TextOptions text;
  const auto app = MakeApp(kDumpCommand, "[OPTIONS] TRACE", kDumpFooter);
  app->add_option("TRACE", path, kTraceText)->required();
  selection.AddTo(app.get());
  AddQuiet(app.get(), &quiet);
  app->add_option("--depth", options.depth, "Show calls at most N deep, the outermost shown counting as 1")
      ->option_text("N")
      ->check(IsCount(1, UINT32_MAX))
      ->group("Filtering");
  Option* const slowest = app->add_option("--slowest", options.slowest, "Only the N slowest calls, the slowest first")
                              ->option_text("N")
                              ->check(IsCount(1))
                              ->group("Filtering");
  app->add_option("--tail", options.tail, "Only the last N calls")
      ->option_text("N")
      ->check(IsCount(1))
      ->excludes(slowest)
      ->group("Filtering");
  app->add_option("--fold", fold,
                  "auto (on a terminal), always or never: show an operator that has its caller's arguments on the "
                  "caller's line, and shorten long lists (default: auto)")
      ->option_text("WHEN")
      ->check(OneOf(Whens()));
  app->add_option("--format", format, "text or jsonl (default: text)")
      ->option_text("FORMAT")
      ->check(OneOf(DumpFormats()));
  app->add_flag(
         "--stacks{recorded}", stacks,
         "Show calls' Python stacks, innermost frame first: short, full or api; default: as chosen when recorded")
      ->option_text("[=FORMAT]")
      ->check(Completed(Checked([](const std::string& text) {
                          return StackFormats().Parse(text == kAsRecorded ? StackFormats().names()[0] : text);
                        }),
                        [] { return StackFormats().names(); }));
  text.AddTo(app.get());
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  selection.Apply(&options);
  options.fold = ForTerminal(*Whens().Parse(fold));
  if (options.fold) options.width = TerminalWidth();
  options.format = *DumpFormats().Parse(format);
  options.color = text.UsesColor();

  ReadingProgress progress(quiet);
  if (absl::Status s = selection.CheckNames({path}, &progress); !s.ok()) return Fail(kExitTrouble, s);
  const absl::StatusOr<std::unique_ptr<Trace>> trace = progress.Open(path);
  if (!trace.ok()) return Fail(kExitTrouble, trace.status());
  if (!stacks.empty()) {
    if (!HasStacks(**trace)) {
      return Fail(kExitTrouble, absl::StrCat(path, " has no stacks: record them with torchtrace run --stacks"));
    }
    options.stacks = stacks == kAsRecorded ? StackFormatOf(**trace) : *StackFormats().Parse(stacks);
  }
  int exit_code;
  Remarks remarks(&selection);
  {
    const Pager pager(!text.no_pager);
    StandardOutput out(options.color ? StandardOutput::kColoredText : StandardOutput::kText, pager.fd());
    const absl::Status shown = WriteDump(trace->get(), options, &out);
    if (shown.ok()) remarks.Add(path, **trace);
    exit_code = out.Finish(shown.ok() ? remarks.Check() : shown);
  }
  if (exit_code == kExitOk) {
    remarks.Tell(quiet);
  }
  return exit_code;
}

}  // namespace

const Command kDumpCommand = {"dump", "List the calls in order, nested, one a line", "Read", RunDump};

}  // namespace torchtrace
