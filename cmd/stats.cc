// `torchtrace stats`.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/command.h"
#include "cmd/exit_code.h"
#include "cmd/message.h"
#include "cmd/options.h"
#include "cmd/reading_options.h"
#include "cmd/standard_output.h"
#include "serialize/import/open_trace.h"
#include "serialize/stats_report.h"

namespace torchtrace {
namespace {

constexpr char kFooter[] =
    "Examples:\n"
    "  torchtrace stats out --top 20\n"
    "  torchtrace stats out --by config --include 'aten::*'\n"
    "  torchtrace stats rank0 rank1 --format json";

int Run(const std::vector<std::string>& args) {
  std::vector<std::string> paths;
  std::string by = "api", format = "text";
  StatsOptions options;
  CallFilterOptions filter;
  const auto app = MakeApp(kStatsCommand, "[OPTIONS] TRACE...", kFooter);
  app->add_option("TRACE", paths, kTraceText)->required();
  app->add_option("--by", by, "What a row is: api, config, level, thread or process (default: api)")
      ->option_text("WHAT")
      ->check(Checked([](const std::string& text) { return ParseStatsBy(text); }));
  app->add_option("--top", options.top, "Only the N most called")->option_text("N")->check(IsCount());
  app->add_option("--format", format, "text, json or csv (default: text)")
      ->option_text("FORMAT")
      ->check(Checked([](const std::string& text) { return ParseStatsFormat(text); }));
  filter.AddTo(app.get());
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  options.by = *ParseStatsBy(by);
  options.format = *ParseStatsFormat(format);
  options.filter = filter.Globs();
  options.levels = filter.Levels();

  std::vector<std::unique_ptr<Trace>> opened;
  std::vector<Trace*> traces;
  for (const std::string& path : paths) {
    absl::StatusOr<std::unique_ptr<Trace>> trace = OpenTrace(path);
    if (!trace.ok()) return Fail(kExitTrouble, trace.status());
    opened.push_back(*std::move(trace));
    traces.push_back(opened.back().get());
  }
  StandardOutput out;
  const int exit_code = out.Finish(WriteStats(traces, options, &out));
  for (const Trace* const trace : traces) TellNotes(*trace);
  return exit_code;
}

}  // namespace

const Command kStatsCommand = {"stats", "Count calls by API, config, level, thread or process", "Read", Run};

}  // namespace torchtrace
