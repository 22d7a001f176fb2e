// `torchtrace apis coverage`.

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cmd/apis.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/reading/reading_options.h"
#include "dialects/table/dialects.h"
#include "serialize/apis/api_names.h"
#include "serialize/apis/apis.h"
#include "serialize/base/choices.h"
#include "serialize/base/command_name.h"
#include "serialize/base/matching.h"
#include "serialize/base/text.h"
#include "serialize/base/version_spans.h"
#include "serialize/model/config.h"
#include "serialize/reports/reports.h"

namespace torchtrace {
namespace {

constexpr char kApisCoverageFooter[] =
    "Several traces count together. Exits with 1 below --fail-under, with 2 on any error.\n"
    "\n"
    "Examples:\n"
    "  torchtrace apis coverage out --show called\n"
    "  torchtrace apis coverage out --list aten --exclude '*.out' --show never\n"
    "  torchtrace apis coverage out --list my_backend.yaml --fail-under 90\n"
    "  torchtrace apis coverage runs/* --list ops.txt --format csv";

absl::StatusOr<double> ParsePercent(const std::string& text) {
  double percent = 0;
  const std::string number = text.substr(0, text.size() - (text.ends_with('%') ? 1 : 0));
  if (absl::SimpleAtod(number, &percent) && percent >= 0 && percent <= 100) {
    if (percent == 0 || percent >= 1 || number != text) return percent;
    return absl::InvalidArgumentError(absl::StrCat("is '", text, "' ", text, "% or ", 100 * percent,
                                                   "%? Write it with the sign: --fail-under ", 100 * percent, "%"));
  }
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a percentage from 0 to 100"));
}

std::vector<std::string> Shown() { return {"namespaces", "called", "never", "outside", "none"}; }

// Sets what --show names in `options`.
absl::Status ParseShow(const std::vector<std::string>& lists, CoverageOptions* options) {
  options->namespaces = options->called = options->never = options->outside = false;
  for (const std::string& item : SplitLists(lists)) {
    if (item == "namespaces") {
      options->namespaces = true;
    } else if (item == "called") {
      options->called = true;
    } else if (item == "never") {
      options->never = true;
    } else if (item == "outside") {
      options->outside = true;
    } else if (item != "none") {
      return UnknownChoice("cannot show", item, Shown());
    }
  }
  return absl::OkStatus();
}

constexpr char kAten[] = "aten";

// The newest version of the framework in the traces; empty if none records it.
std::string NewestVersion(const std::vector<StatsTrace>& traces, const DialectInfo& dialect) {
  std::string newest;
  for (const StatsTrace& trace : traces) {
    for (const std::string& version : PackageVersions(*trace.trace, dialect.name)) {
      if (newest.empty() || ParseMinorVersion(newest) < ParseMinorVersion(version)) newest = version;
    }
  }
  return newest;
}

// The list that --list names.
absl::StatusOr<ApiList> FindList(const std::string& name, const DialectInfo& dialect,
                                 const std::vector<StatsTrace>& traces) {
  if (name.empty()) return DefaultApiList(dialect, NewestVersion(traces, dialect));
  if (name != kAten) {
    absl::StatusOr<ApiList> read = ReadApiList(name);
    if (read.ok()) KnownApiNames().AddOtherNames(&*read);
    return read;
  }
  ApiList list;
  for (const StatsTrace& trace : traces) {
    if (absl::Status s = AddOperators(*trace.trace, trace.name, kAten, &list); !s.ok()) return s;
  }
  return list;
}

// Whether names of --list that are of no known API stay in it.
const Choices<bool>& Unknowns() {
  static const Choices<bool> unknowns("unknown choice", {{"refuse", false}, {"keep", true}});
  return unknowns;
}

// The names that neither torchtrace nor the traces know: `remarks` gets them if they are kept, else they are an error.
absl::Status CheckNamesOf(const ApiList& list, const std::string& list_name, const std::vector<StatsTrace>& traces,
                          bool keep, std::vector<std::string>* remarks) {
  if (UnknownListNames(list, list_name, KnownApiNames(), /*knows_operators=*/true).empty()) return absl::OkStatus();
  std::string found;
  bool knows_operators = false;
  for (const StatsTrace& trace : traces) {
    if (absl::Status s = AppendNames(trace.trace, &found); !s.ok()) return s;
    for (const ProcessInfo& process : trace.trace->processes()) {
      knows_operators = knows_operators || FindOperators(*trace.trace, process) != nullptr;
    }
  }
  std::vector<std::string_view> tables = ApiNameTables();
  tables.push_back(found);
  const ApiNames known(tables);
  const std::vector<WrittenName> unknown = UnknownListNames(list, list_name, known, knows_operators);
  if (!keep) return UnknownNames(unknown, known);
  constexpr size_t kNamed = 10;
  std::string names;
  for (size_t i = 0; i < std::min(unknown.size(), kNamed); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", unknown[i].text);
  }
  if (!unknown.empty()) {
    remarks->push_back(absl::StrCat(list_name, " has ", Counted(unknown.size(), "name", "names"),
                                    " of no known API: ", names, unknown.size() > kNamed ? ", ..." : ""));
  }
  return absl::OkStatus();
}

// The dialect of a trace: from its metadata, else from the first config of a framework.
const DialectInfo& DialectOf(Trace* trace) {
  for (const ProcessInfo& process : trace->processes()) {
    if (const DialectInfo* const known = FindDialectInfo(process.known.dialect)) return *known;
  }
  const size_t count = trace->Count().ok() ? trace->config_count() : 0;
  for (size_t i = 0; i < count; ++i) {
    const Config config = ReadableConfig(trace->identity(static_cast<ConfigId>(i)));
    if (!FrameworkOf(config.api).empty() || HasFrameworkValue(config)) return DialectInfoOr(config.framework());
  }
  return DialectInfoOr("");
}

// Reports traces of another version of the framework than the list.
std::vector<std::string> OtherVersions(const std::vector<StatsTrace>& traces, const DialectInfo& dialect,
                                       const ApiList& list) {
  std::vector<std::string> sentences;
  for (const StatsTrace& trace : traces) {
    std::set<std::string> others = PackageVersions(*trace.trace, dialect.name);
    std::erase_if(others, [&list](const std::string& version) { return IsOfVersion(list, version); });
    if (others.empty()) continue;
    sentences.push_back(absl::StrCat(trace.name, " was recorded with ", dialect.title, " ", absl::StrJoin(others, ", "),
                                     ", the list is for ", list.version, "; `", CommandName(),
                                     " apis scan --default` makes a list for another version"));
  }
  return sentences;
}

int RunApisCoverage(const std::vector<std::string>& args) {
  std::vector<std::string> paths, show;
  std::string list_name, unknown = "refuse", format = "text", fail_under;
  CoverageOptions options;
  CallFilterOptions filter;
  const auto app = MakeApp(kApisCoverageCommand, "[OPTIONS] TRACE...", kApisCoverageFooter);
  app->add_option("TRACE", paths, kTraceText)->required();
  app->add_option("--list", list_name,
                  "What to measure against: a file of names, of APIs or operators (see docs/APIS.md); or aten, the "
                  "ATen operators that the traced PyTorch had (default: the public APIs of the trace's framework)")
      ->option_text("FILE");
  Option* const unknown_option =
      app->add_option(
             "--unknown", unknown,
             "Names of --list that are of no known API: refuse, or keep them, as never called (default: refuse)")
          ->option_text("WHAT")
          ->check(OneOf(Unknowns()));
  app->add_option("--format", format, "text, json, csv or markdown (default: text)")
      ->option_text("FORMAT")
      ->check(OneOf(StatsFormats()));
  app->add_option(
         "--show", show,
         "What to show: namespaces (how many of each), called, never, outside (called, and not in the list), or "
         "none (default: namespaces; JSON namespaces,called,never; CSV called,never)")
      ->option_text("ROWS")
      ->allow_extra_args(false)
      ->check(CompletedLists(
          [&options](const std::string& text) { return std::string(ParseShow({text}, &options).message()); }, Shown));
  app->add_option("--fail-under", fail_under, "Exit with 1 if less than P percent of the list were called")
      ->option_text("P")
      ->check(Checked([](const std::string& text) { return ParsePercent(text); }));
  filter.AddTo(app.get());
  bool all = false, quiet = false;
  app->add_flag("--all", all, kAllLinesText);
  AddQuiet(app.get(), &quiet);
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  if (*unknown_option && (list_name.empty() || list_name == kAten)) {
    return Fail(kExitTrouble,
                absl::StrCat("--unknown is for the names of a file: --list FILE", SeeHelp("apis coverage")));
  }
  options.format = *StatsFormats().Parse(format);
  options.filter = filter.Globs();
  options.levels = filter.Levels();
  if (show.empty()) {
    const bool people = IsForPeople(options.format);
    options.called = options.never = !people;
    options.namespaces = people || options.format == StatsFormat::kJson;
  } else if (absl::Status s = ParseShow(show, &options); !s.ok()) {
    return Fail(kExitTrouble, s);
  }
  if (options.format == StatsFormat::kCsv && options.namespaces &&
      (options.called || options.never || options.outside)) {
    return Fail(kExitTrouble, "--show namespaces is a separate table in CSV: give it alone");
  }

  ReadingProgress progress(quiet, paths.size());
  if (absl::Status s = filter.CheckNames(paths, &progress); !s.ok()) return Fail(kExitTrouble, s);
  std::vector<std::unique_ptr<Trace>> opened;
  std::vector<StatsTrace> traces;
  for (const std::string& path : paths) {
    absl::StatusOr<std::unique_ptr<Trace>> trace = progress.Open(path);
    if (!trace.ok()) return Fail(kExitTrouble, trace.status());
    opened.push_back(*std::move(trace));
    traces.push_back({opened.back().get(), path});
  }
  options.exact_overloads = list_name == kAten;
  const DialectInfo& dialect = DialectOf(traces.front().trace);
  const absl::StatusOr<ApiList> list = FindList(list_name, dialect, traces);
  if (!list.ok()) return Fail(kExitTrouble, list.status());
  const std::string shown_name = list_name.empty()    ? absl::StrCat(dialect.title, " ", list->version)
                                 : list_name == kAten ? absl::StrCat("the ATen of PyTorch ", list->version)
                                                      : list_name;

  std::vector<std::string> kept;
  if (!list_name.empty() && list_name != kAten) {
    const absl::Status s = CheckNamesOf(*list, list_name, traces, *Unknowns().Parse(unknown), &kept);
    if (!s.ok()) return Fail(kExitTrouble, s);
  }

  StandardOutput out(all ? "" : "--all");
  CoverageTotals totals;
  const absl::Status written = WriteCoverage(traces, *list, shown_name, options, &out, &totals);
  Remarks remarks(&filter);
  for (const StatsTrace& trace : traces) {
    if (written.ok()) remarks.Add(trace.name, *trace.trace);
  }
  const int exit_code = out.Finish(written.ok() ? remarks.Check() : written);
  if (exit_code != kExitOk) return exit_code;
  remarks.Add(kept);
  if (list_name.empty()) remarks.Add(OtherVersions(traces, dialect, *list));
  if (const size_t count = totals.repeated.size(); count > 0) {
    remarks.Add({absl::StrCat(Counted(count, "name", "names"), " in ", list_name,
                              " are aliases of other names in it, and count once: ", totals.repeated.front(),
                              count > 1 ? ", ..." : "")});
  }
  remarks.Tell(quiet);
  const double bar = fail_under.empty() ? 0 : *ParsePercent(fail_under);
  return totals.Reaches(bar) ? static_cast<int>(kExitOk)
                             : Fail(kExitBelow, absl::StrCat("fewer than ", bar, "% of ", shown_name, " were called"));
}

}  // namespace

absl::Status WriteDefaultCoverage(const std::vector<StatsTrace>& traces, std::ostream* out) {
  const DialectInfo& dialect = DialectOf(traces.front().trace);
  const absl::StatusOr<ApiList> list = FindList("", dialect, traces);
  if (!list.ok()) return absl::OkStatus();
  CoverageOptions options;
  options.format = StatsFormat::kJson;
  options.namespaces = true;
  CoverageTotals totals;
  return WriteCoverage(traces, *list, absl::StrCat(dialect.title, " ", list->version), options, out, &totals);
}

const Command kApisCoverageCommand = {"apis coverage", "Which APIs or operators of a list were called, and which never",
                                      "Read", RunApisCoverage};

}  // namespace torchtrace
