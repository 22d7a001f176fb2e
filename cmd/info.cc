// `torchtrace info`.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/cli/terminal.h"
#include "cmd/reading/reading_options.h"
#include "serialize/import/open_trace.h"
#include "serialize/reports/reports.h"

namespace torchtrace {
namespace {

constexpr char kInfoFooter[] =
    "Examples:\n"
    "  torchtrace info out\n"
    "  torchtrace info --open out     where does it hang? also while the program runs";

int RunInfo(const std::vector<std::string>& args) {
  std::string path, format = "text";
  bool open = false;
  const auto app = MakeApp(kInfoCommand, "[OPTIONS] TRACE", kInfoFooter);
  app->add_option("TRACE", path, kTraceText)->required();
  app->add_flag(
      "--open", open,
      "The calls that have not ended, of each process and thread, with their stacks where they were recorded; "
      "also while the program runs");
  app->add_option("--format", format, "text or json (default: text)")
      ->option_text("FORMAT")
      ->check(OneOf(TextOrJson()));
  bool quiet = false;
  AddQuiet(app.get(), &quiet);
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;

  ReadingProgress progress(quiet);
  const absl::StatusOr<std::unique_ptr<Trace>> trace = progress.Open(path);
  if (!trace.ok()) return Fail(kExitTrouble, trace.status());
  InfoOptions options{.json = *TextOrJson().Parse(format)};
  if (IsImported(**trace)) options.format = TraceFormat(**trace);
  StandardOutput out;
  const int exit_code =
      out.Finish(open ? WriteOpenCalls(trace->get(), {.json = options.json, .width = TerminalWidth()}, &out)
                      : WriteInfo(trace->get(), path, options, &out));
  if (exit_code == kExitOk) {
    Remarks remarks;
    if (open) remarks.AddCounted(path, **trace);
    remarks.Add(TraceNotes(**trace));
    remarks.Tell(quiet);
  }
  return exit_code;
}

}  // namespace

const Command kInfoCommand = {"info", "Show what was run, how it ended, and what the trace lacks", "Read", RunInfo};

}  // namespace torchtrace
