// `torchtrace stats`.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/cli/terminal.h"
#include "cmd/reading/reading_options.h"
#include "serialize/base/read_file.h"
#include "serialize/reports/reports.h"
#include "serialize/reports/shapes.h"

namespace torchtrace {
namespace {

constexpr char kStatsFooter[] =
    "Several traces are shown side by side, a group of columns for each; --sum adds them up.\n"
    "\n"
    "Examples:\n"
    "  torchtrace stats out --top 20\n"
    "  torchtrace stats out --by shapes\n"
    "  torchtrace stats out --by config --include %matmul --sort time\n"
    "  torchtrace stats out --where 'tag(step) = 3' --sort self\n"
    "  torchtrace stats rank0 rank1 --by family --format markdown\n"
    "  torchtrace stats out --census";

// The path without a slash at the end: `a/b/` is `a/b`.
std::string NameOf(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  return end == std::string::npos ? path : path.substr(0, end + 1);
}

// The values of --label NAME=TRACE, by trace.
absl::StatusOr<std::map<std::string, std::string>> ParseLabels(const std::vector<std::string>& labels,
                                                               const std::vector<std::string>& paths) {
  std::map<std::string, std::string> names;
  for (const std::string& label : labels) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(absl::StrCat("--label: '", label, "' is not NAME=TRACE"));
    }
    const std::string path = NameOf(label.substr(equals + 1));
    bool found = false;
    for (const std::string& candidate : paths) found = found || NameOf(candidate) == path;
    if (!found) return absl::InvalidArgumentError(absl::StrCat("--label: '", path, "' is not one of the traces"));
    names[path] = label.substr(0, equals);
  }
  return names;
}

// Checks that columns are distinct: no trace is given twice, and no two have the same name.
absl::Status CheckApart(const std::vector<std::string>& paths, const std::map<std::string, std::string>& names) {
  std::map<std::string, std::string> seen;  // paths by column name
  for (const std::string& path : paths) {
    const std::string trace = NameOf(path);
    const auto label = names.find(trace);
    const std::string& name = label == names.end() ? trace : label->second;
    const auto [at, fresh] = seen.emplace(name, trace);
    if (fresh || path == "-") continue;  // reading standard input again fails later
    return absl::InvalidArgumentError(at->second == trace
                                          ? absl::StrCat(path, " was given twice; --sum counts it twice")
                                          : absl::StrCat(at->second, " and ", trace, " are both called ", name,
                                                         ": --label NAME=TRACE gives another name"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ShapeRules> ReadRules(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return text.status();
  return ShapeRules::WithOwn(*text, path);
}

// Whether --times shows all of them, or only sums.
const Choices<bool>& TimesShown() {
  static const Choices<bool> times("unknown times", {{"sums", false}, {"all", true}});
  return times;
}

int RunStats(const std::vector<std::string>& args) {
  std::vector<std::string> paths, ignore, labels;
  std::string by = "api", format = "text", sort, flops, times = "sums";
  uint64_t top = 0;
  StatsOptions options;
  bool census = false, no_times = false, quiet = false;
  CallSelectionOptions selection;
  const auto app = MakeApp(kStatsCommand, "[OPTIONS] TRACE...", kStatsFooter);
  app->add_option("TRACE", paths, kTraceText)->required();
  Option* const by_option =
      app->add_option("--by", by,
                      "What a row is: api, config, family (configs that differ only in sizes and numbers), shapes (M, "
                      "N, K, with FLOPs and bytes), graph (of torch.compile), kernel (needs run --device-times), "
                      "level, thread, process, rank, label, line (of the program; needs run --stacks), module (needs "
                      "level 3), step or tag:NAME (of torchtrace.annotate) (default: api)")
          ->option_text("WHAT")
          ->check(
              Completed(Checked([](const std::string& text) { return ParseStatsGrouping(text); }), StatsGroupingNames));
  Option* const sort_option =
      app->add_option("--sort", sort,
                      "calls, configs, time, self (time), device (time), name, first (call), memory (allocated; needs "
                      "run --memory), flops or bytes (default: calls; of shapes and graphs time; of steps their order)")
          ->option_text("ORDER")
          ->check(OneOf(StatsSorts()));
  Option* const top_option =
      app->add_option(
             "--top", top,
             "Only the first N rows of each level in that order; 0: all (default: text and Markdown what fits a "
             "screen, 20 and fewer at several levels; JSON and CSV all)")
          ->option_text("N")
          ->check(IsCount());
  app->add_option("--format", format, "text, json, csv or markdown (default: text)")
      ->option_text("FORMAT")
      ->check(OneOf(StatsFormats()));
  app->add_flag("--sum", options.sum, "Add several traces up instead of showing them side by side");
  app->add_option("--label", labels, "The name of TRACE's columns (default: TRACE); may be repeated")
      ->option_text("NAME=TRACE")
      ->allow_extra_args(false);
  Option* const flops_option = app->add_option("--flops", flops,
                                               "Show FLOPs and bytes, with rules of FILE for operators of one's own "
                                               "(docs/STATS.md#rules-of-ones-own)")
                                   ->option_text("FILE");
  Option* const times_option =
      app->add_option("--times", times, "sums, or all: mean, min, p50, p99 and max of the calls too (default: sums)")
          ->option_text("WHAT")
          ->check(OneOf(TimesShown()));
  app->add_flag("--no-times", no_times, "Only count, which is several times faster");
  app->add_flag("--numbers", options.numbers,
                "Show what the calls return and write: least and most element, largest norm, and how many calls "
                "have NaN and infinite elements; needs run --numbers");
  app->add_option("--ignore", ignore,
                  absl::StrCat("Count configs that differ only in these as one: ", Coarsening::Choices()))
      ->option_text("PARTS")
      ->allow_extra_args(false)
      ->check(CompletedLists(Checked([](const std::string& text) { return Coarsening::Parse(SplitLists({text})); }),
                             Coarsening::Names));
  Option* const census_option = app->add_flag(
      "--census", census,
      "Show instead the operators (level 2) that ran outside any API call (level 1), by operator and thread");
  selection.AddTo(app.get());
  AddQuiet(app.get(), &quiet);
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  options.grouping = *ParseStatsGrouping(by);
  options.format = *StatsFormats().Parse(format);
  if (*sort_option) options.sort = *StatsSorts().Parse(sort);
  if (*top_option) options.top = top;
  if (const size_t lines = TerminalLines(); lines > 0) options.screen = {TerminalWidth(), lines};
  options.times = !no_times;
  options.all_times = *TimesShown().Parse(times);
  if (no_times && *times_option) return Fail(kExitTrouble, "--times and --no-times contradict each other: give one");
  selection.Apply(&options);
  options.ignore = *Coarsening::Parse(SplitLists(ignore));
  if (*census_option && (*by_option || *sort_option || *times_option || *flops_option || options.sum || no_times ||
                         options.numbers || !ignore.empty() || !options.levels.empty() || options.ChoosesCalls())) {
    return Fail(kExitTrouble, absl::StrCat("--census has fixed rows and order: of the other options it takes --top, "
                                           "--format, --label, --include and --exclude",
                                           SeeHelp("stats")));
  }
  std::optional<ShapeRules> rules;
  if (*flops_option) {
    absl::StatusOr<ShapeRules> own = ReadRules(flops);
    if (!own.ok()) return Fail(kExitTrouble, absl::StrCat("--flops: ", own.status().message()));
    options.shape_rules = &rules.emplace(*std::move(own));
  }
  const absl::StatusOr<std::map<std::string, std::string>> names = ParseLabels(labels, paths);
  if (!names.ok()) return Fail(kExitTrouble, names.status());

  if (absl::Status s = CheckApart(paths, *names); !s.ok() && !options.sum) return Fail(kExitTrouble, s);
  ReadingProgress progress(quiet, paths.size());
  if (absl::Status s = selection.CheckNames(paths, &progress); !s.ok()) return Fail(kExitTrouble, s);
  std::vector<std::unique_ptr<Trace>> opened;
  std::vector<StatsTrace> traces;
  for (const std::string& path : paths) {
    absl::StatusOr<std::unique_ptr<Trace>> trace = progress.Open(path);
    if (!trace.ok()) return Fail(kExitTrouble, trace.status());
    opened.push_back(*std::move(trace));
    const auto name = names->find(NameOf(path));
    traces.push_back({opened.back().get(), name == names->end() ? NameOf(path) : name->second});
  }
  StandardOutput out;
  absl::Status written;
  std::vector<std::string> notes;
  if (census) {
    CensusOptions census_options;
    census_options.format = options.format;
    census_options.top = options.top;
    census_options.screen = options.screen;
    census_options.filter = options.filter;
    written = WriteCensus(traces, census_options, &out);
  } else {
    written = WriteStats(traces, options, &out, &notes);
  }
  Remarks remarks(&selection);
  for (size_t i = 0; written.ok() && i < traces.size(); ++i) {
    remarks.Add(paths[i], *opened[i]);
    if (options.times && !census && !options.ChoosesCalls()) remarks.AddOpenCalls(paths[i], *opened[i]);
  }
  remarks.Add(notes);
  const int exit_code = out.Finish(written.ok() ? remarks.Check() : written);
  if (exit_code == kExitOk) remarks.Tell(quiet);
  return exit_code;
}

}  // namespace

const Command kStatsCommand = {"stats", "Count calls by API, config, shapes, graph, thread, line, module, step or tag",
                               "Read", RunStats};

}  // namespace torchtrace
