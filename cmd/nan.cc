// `torchtrace nan`.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/cli/terminal.h"
#include "cmd/reading/reading_options.h"
#include "serialize/numbers/first_nan.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

constexpr char kNanFooter[] =
    "Exits with 1 when there is one, 0 when there is none, 2 on errors. Needs a run with --numbers.\n\n"
    "Examples:\n"
    "  torchtrace nan out\n"
    "  torchtrace nan out --nan-only\n"
    "  torchtrace nan rank0 rank1 --where 'tag(step) = 3'\n"
    "  torchtrace nan out --format json";

int RunNan(const std::vector<std::string>& args) {
  std::vector<std::string> paths;
  std::string format = "text";
  bool quiet = false;
  NanOptions options;
  CallSelectionOptions selection;
  TextOptions text;
  const auto app = MakeApp(kNanCommand, "[OPTIONS] TRACE...", kNanFooter);
  app->add_option("TRACE", paths, kTraceText)->required();
  app->add_flag("--nan-only", options.nan_only, "No infinities: for programs with masks of -inf");
  selection.AddTo(app.get());
  AddQuiet(app.get(), &quiet);
  app->add_option("--format", format, "text or json (default: text)")
      ->option_text("FORMAT")
      ->check(OneOf(TextOrJson()));
  text.AddTo(app.get());
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  selection.Apply(&options);
  options.json = *TextOrJson().Parse(format);
  options.color = text.UsesColor();
  options.width = TerminalWidth();

  ReadingProgress progress(quiet, paths.size());
  if (absl::Status s = selection.CheckNames(paths, &progress); !s.ok()) return Fail(kExitTrouble, s);
  std::vector<std::unique_ptr<Trace>> opened;
  std::vector<NanTrace> traces;
  for (const std::string& path : paths) {
    absl::StatusOr<std::unique_ptr<Trace>> trace = progress.Open(path);
    if (!trace.ok()) return Fail(kExitTrouble, trace.status());
    opened.push_back(*std::move(trace));
    traces.push_back({opened.back().get(), path == "-" ? "standard input" : path});
  }
  Remarks remarks(&selection);
  absl::StatusOr<bool> found = false;
  int exit_code;
  {
    const Pager pager(!text.no_pager);
    StandardOutput out(options.color ? StandardOutput::kColoredText : StandardOutput::kText, pager.fd());
    found = WriteNans(traces, options, &out);
    if (found.ok()) {
      for (size_t i = 0; i < paths.size(); ++i) remarks.Add(paths[i], *opened[i]);
    }
    exit_code = out.Finish(found.ok() ? remarks.Check() : found.status());
  }
  if (exit_code == kExitOk) remarks.Tell(quiet);
  // A reader that has gone away is no failure, but a finding keeps its exit code.
  return exit_code == kExitOk && found.ok() && *found ? kExitFound : exit_code;
}

}  // namespace

const Command kNanCommand = {"nan", "Find the call that made the first NaN or infinity, and what it reached", "Read",
                             RunNan};

}  // namespace torchtrace
