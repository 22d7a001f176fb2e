// `torchtrace export`.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cmd/cli/installation.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/export_in_python.h"
#include "cmd/export_series.h"
#include "cmd/reading/reading_options.h"
#include "cmd/table_facts_of_verbs.h"
#include "replay/code.h"
#include "replay/replay.h"
#include "serialize/base/matching.h"
#include "serialize/base/packed_name.h"
#include "serialize/base/text.h"
#include "serialize/export/exporter.h"
#include "serialize/export/exports.h"
#include "serialize/export/table_writer.h"
#include "serialize/model/config.h"
#include "serialize/reports/shapes.h"
#include "serialize/trace/call_tree.h"
#include "serialize/trace/trace.h"
#include "tracer/launch/find_python.h"
#include "tracer/launch/run_metadata.h"

namespace torchtrace {
namespace {

constexpr char kExportFooter[] =
    "Examples:\n"
    "  torchtrace export out -o configs/out.parquet\n"
    "  torchtrace export out -o flames.html\n"
    "  torchtrace export torchbench out -o ops.txt\n"
    "  torchtrace export timing out -o timing.csv\n"
    "  torchtrace export csv --calls out --include 'aten::*' > calls.csv\n"
    "  torchtrace export python --calls 120-180 out -o part.py";

struct ExportArguments {
  const Exporter* exporter = nullptr;
  std::vector<std::string> paths;
  ExportFilter filter;
  bool counts = false;
  bool quiet = false;
  std::string output, python;
  LabelBy by = LabelBy::kApi;
  TreeWeight weight = TreeWeight::kTime;
  CallSelectionOptions calls;  // source of `filter` and `selection`
  CallSelection selection;
  std::function<absl::StatusOr<std::unique_ptr<Trace>>(const std::string& path)> open;
};

bool HoldsTables(const Exporter& exporter) { return exporter.HoldsTables(); }

bool HoldsOnlyCalls(const Exporter& exporter) { return !exporter.HoldsConfigs(); }

// For the help page.
std::string Formats() {
  std::string lines = "Formats:\n";
  for (const Exporter* const exporter : Exporters()) {
    absl::StrAppend(&lines, absl::StrFormat("  %-12s %s\n", exporter->name, exporter->help));
  }
  return lines + '\n';
}

// The first word is the format if it names one; else the output's suffix decides, and all words are traces.
absl::StatusOr<const Exporter*> TakeFormat(const std::string& output, std::vector<std::string>* words) {
  if (words->empty()) return absl::InvalidArgumentError(absl::StrCat("TRACE is required", SeeHelp("export")));
  absl::StatusOr<const Exporter*> named = FindExporter(words->front());
  if (named.ok()) {
    words->erase(words->begin());
    return named;
  }
  std::error_code error;
  for (const std::string& word : *words) {
    if (!FindExporter(word).ok() || std::filesystem::exists(word, error)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the format comes before the traces: torchtrace export ", word, " ", words->front()));
  }
  if (words->size() > 1 && words->front() != "-" && !std::filesystem::exists(words->front(), error)) return named;
  if (output.empty() || output == "-") {
    return absl::InvalidArgumentError(absl::StrCat("no format: name one (", ExporterNames(),
                                                   "), or with -o a file that ends in ", ExporterSuffixes()));
  }
  return FindExporterOfFile(output);
}

// The label of a trace is its path, without a slash at the end.
std::string LabelOf(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// `missing` receives the remarks on them.
std::vector<LabelledTrace> Traces(const ExportArguments& arguments, Remarks* missing) {
  std::vector<LabelledTrace> traces;
  traces.reserve(arguments.paths.size());
  for (const std::string& path : arguments.paths) {
    const auto tell = [path, missing](const Trace& trace) { missing->Add(path, trace); };
    traces.push_back({LabelOf(path), [path, &arguments] { return arguments.open(path); }, tell});
  }
  return traces;
}

ExportOptions OptionsFor(const ExportArguments& arguments, const char* table) {
  return {.counts = arguments.counts,
          .version = kVersion,
          .traces = arguments.paths,
          .table = table,
          .output = std::string(UnpackedName(arguments.output)),
          .by = arguments.by,
          .weight = arguments.weight,
          .cost = [rules = std::make_shared<ShapeRules>(arguments.weight == TreeWeight::kFlops ? ShapeRules::BuiltIn()
                                                                                               : ShapeRules())](
                      const Trace& trace, ConfigId config) -> ConfigCost {
            return rules->Find(ReadableConfig(trace.identity(config))).config_cost();
          }};
}

absl::Status WriteConfigs(const ExportArguments& arguments, std::ostream* out, Remarks* notes) {
  const absl::StatusOr<std::unique_ptr<ConfigSink>> sink =
      MakeConfigSink(*arguments.exporter, out, OptionsFor(arguments, "configs"));
  if (!sink.ok()) return sink.status();
  const std::unique_ptr<TableFacts> facts = MakeTableFacts();
  const absl::Status exported = ExportConfigs(Traces(arguments, notes),
                                              {.filter = arguments.filter,
                                               .selection = arguments.selection,
                                               .facts = arguments.exporter->HoldsTables() ? facts.get() : nullptr},
                                              *arguments.exporter, sink->get());
  if (!exported.ok()) return exported;
  if (absl::Status s = (*sink)->Finish(); !s.ok()) return s;
  notes->Add((*sink)->notes());
  return absl::OkStatus();
}

absl::Status WriteCalls(const ExportArguments& arguments, const WritesTables& format, std::ostream* out,
                        Remarks* notes) {
  const absl::StatusOr<std::unique_ptr<TableWriter>> table =
      format.make(CallColumns(), out, OptionsFor(arguments, "calls"));
  if (!table.ok()) return table.status();
  CallExportOptions options;
  options.selection = arguments.selection;
  const std::unique_ptr<TableFacts> facts = MakeTableFacts();
  options.facts = facts.get();
  for (const LabelledTrace& labelled : Traces(arguments, notes)) {
    const absl::StatusOr<std::unique_ptr<Trace>> trace = labelled.open();
    if (!trace.ok()) return trace.status();
    if (absl::Status s = ExportCalls(trace->get(), labelled.label, options, table->get()); !s.ok()) return s;
    labelled.done(**trace);
  }
  return (*table)->Finish();
}

absl::Status WriteTimeline(const ExportArguments& arguments, const WritesCalls& format, std::ostream* out,
                           Remarks* notes) {
  const std::unique_ptr<CallSink> sink = format.make(out, OptionsFor(arguments, "calls"));
  const absl::Status exported = ExportTimeline(Traces(arguments, notes), arguments.selection, sink.get());
  if (!exported.ok()) return exported;
  if (absl::Status s = sink->Finish(); !s.ok()) return s;
  notes->Add(sink->notes());
  return absl::OkStatus();
}

absl::Status WriteCode(const ExportArguments& arguments, std::ostream* out, Remarks* notes) {
  const std::string format = arguments.exporter->name;
  const bool cases = format == "pytest";
  if (!cases && arguments.paths.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("a program is made from one trace: leave out ", arguments.paths[1]));
  }
  const absl::StatusOr<FoundPython> python = FindPython(arguments.python, EnvironmentOfWheel());
  if (!python.ok()) return python.status();
  CodeWriter code(format, python->path);
  ReplayPlan plan(arguments.selection, /*counts=*/true);
  for (const LabelledTrace& labelled : Traces(arguments, notes)) {
    const absl::StatusOr<std::unique_ptr<Trace>> trace = labelled.open();
    if (!trace.ok()) return trace.status();
    absl::Status s =
        cases ? plan.Open(trace->get()) : code.AddProgram(trace->get(), labelled.label, arguments.selection);
    if (s.ok() && cases) s = code.AddCases(&plan, labelled.label);
    if (!s.ok()) return s;
    labelled.done(**trace);
  }
  std::vector<std::string> left_out;
  const absl::Status written = code.Finish(out, &left_out);
  notes->Add(left_out);
  return written;
}

int WriteSeries(const ExportArguments& arguments, const WritesSeries& format, const SeriesOptions& options,
                bool force) {
  Remarks notes(&arguments.calls);
  int exit_code = kExitOk;
  const std::vector<std::string> files =
      options.Write(format, Traces(arguments, &notes), arguments.selection, arguments.output, force, &exit_code);
  if (exit_code == kExitOk && !notes.Check().ok()) return Fail(kExitTrouble, notes.Check());
  if (exit_code != kExitOk || arguments.quiet) return exit_code;
  notes.Tell(/*quiet=*/false);
  if (!files.empty()) {
    Say(absl::StrCat("wrote ", files[0], files.size() > 1 ? absl::StrCat(" and ", files.size() - 1, " more") : ""));
  }
  return exit_code;
}

// Whether the word was meant as numbers, valid or not.
bool LooksLikeNumbers(const std::string& word) {
  return word.empty() || word.starts_with('@') ||
         (word.find_first_of("0123456789") != std::string::npos &&
          word.find_first_not_of("0123456789-,@") == std::string::npos);
}

// Removes the numbers from `--calls 3-9` and `--calls=3-9`, and puts them into `numbers`. The word after --calls is
// numbers if it looks like them and no file has that name.
absl::StatusOr<std::vector<std::string>> TakeNumbers(const std::vector<std::string>& args, std::string* numbers) {
  constexpr std::string_view kWithNumbers = "--calls=";
  std::vector<std::string> left;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--") {
      left.insert(left.end(), args.begin() + static_cast<std::ptrdiff_t>(i), args.end());
      break;
    }
    std::error_code error;
    const bool follows = args[i] == "--calls" && i + 1 < args.size() && LooksLikeNumbers(args[i + 1]) &&
                         !std::filesystem::exists(args[i + 1], error);
    if (!follows && !args[i].starts_with(kWithNumbers)) {
      left.push_back(args[i]);
      continue;
    }
    *numbers = follows ? args[++i] : args[i].substr(kWithNumbers.size());
    if (const auto parsed = NumberSet::Parse(*numbers); !parsed.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--calls: ", parsed.status().message(), SeeHelp("export")));
    }
    left.emplace_back("--calls");
  }
  return left;
}

int RunExport(const std::vector<std::string>& all_args) {
  ExportArguments arguments;
  std::string format, by = "api", weight = "time";
  bool force = false, calls = false, all = false;
  SeriesOptions series;
  const auto app = MakeApp(kExportCommand, "[OPTIONS] [FORMAT] TRACE...", absl::StrCat(Formats(), kExportFooter));
  const Option* const first_word =
      app->add_option("FORMAT", format, absl::StrCat(ExporterNames(), " (default: by FILE's suffix)"))
          ->check(Completed(Check(), [] { return ExporterNameList(); }));
  app->add_option("TRACE", arguments.paths, kTraceText);
  app->add_option("-o,--output", arguments.output, "File to write (default: standard output); timing: or a folder")
      ->option_text("FILE")
      ->check(IsName());
  app->add_flag("-f,--force", force, "Replace a file that exists");
  app->add_flag(
      "--calls", calls,
      absl::StrCat("A row per call instead of a row per config: ", ExporterNames(HoldsTables),
                   "; followed by NUMBERS (A-B, A-, -B, A, @FILE; several with commas), only calls of these, for ",
                   ExporterNames(HoldsOnlyCalls), ", too"));
  app->add_flag("--all", all, kAllLinesText);
  app->add_flag("--counts", arguments.counts, "text: begin each line with how often it was called");
  Option* const by_option =
      app->add_option("--by", by,
                      "flamegraph: what a frame is, as in torchtrace tree: api, module or line (default: api)")
          ->option_text("WHAT")
          ->check(OneOf(LabelKinds()));
  Option* const weight_option =
      app->add_option("--weight", weight,
                      "flamegraph: how wide a frame is: time, device (time), memory (allocated) or flops "
                      "(default: time)")
          ->option_text("WHAT")
          ->check(OneOf(TreeWeights()));
  series.AddTo(app.get());
  app->add_option("--python", arguments.python,
                  "The environment with pyarrow (parquet) or torch (python, pytest, fx), by its python or its folder "
                  "(default: as `run` finds one)")
      ->option_text("PYTHON");
  app->add_flag("-q,--quiet", arguments.quiet, "Don't report what was left out or written");
  arguments.calls.AddTo(app.get(), /*with_numbers=*/false);
  const absl::StatusOr<std::vector<std::string>> args = TakeNumbers(all_args, &arguments.calls.numbers);
  if (!args.ok()) return Fail(kExitTrouble, args.status());
  if (std::optional<int> done = ParseOptions(app.get(), *args, kExitTrouble)) return *done;
  if (*first_word) arguments.paths.insert(arguments.paths.begin(), format);
  const absl::StatusOr<const Exporter*> exporter = TakeFormat(arguments.output, &arguments.paths);
  if (!exporter.ok()) return Fail(kExitTrouble, series.CheckFormat(exporter.status()));
  if (arguments.paths.empty()) return Fail(kExitTrouble, absl::StrCat("TRACE is required", SeeHelp("export")));
  arguments.exporter = *exporter;
  format = arguments.exporter->name;
  if (absl::Status s = CheckFileName(*arguments.exporter, arguments.output); !s.ok()) return Fail(kExitTrouble, s);
  arguments.by = *LabelKinds().Parse(by);
  arguments.weight = *TreeWeights().Parse(weight);
  arguments.filter = {arguments.calls.Globs(), arguments.calls.Levels()};
  arguments.calls.Apply(&arguments.selection);
  const auto* const in_series = std::get_if<WritesSeries>(&arguments.exporter->write);
  if (const absl::Status s = series.CheckUnused(); in_series == nullptr && !s.ok()) return Fail(kExitTrouble, s);
  if (calls && !arguments.exporter->HoldsTables() && arguments.exporter->HoldsConfigs()) {
    return Fail(kExitTrouble,
                absl::StrCat("--calls: ", format, " holds configs only; ", ExporterNames(HoldsTables), " hold calls"));
  }
  // Tables of configs always have a column of counts.
  if (arguments.counts && format != "text" && (calls || !arguments.exporter->HoldsTables())) {
    return Fail(kExitTrouble, absl::StrCat("--counts is for text and tables of configs, not for ", format));
  }
  if ((*by_option || *weight_option) && format != "flamegraph") {
    return Fail(kExitTrouble,
                absl::StrCat(*by_option ? "--by" : "--weight", " is only for flamegraph, not for ", format));
  }
  if (NeedsPython(*arguments.exporter))
    return ContinueInPython(*arguments.exporter, arguments.python, kExportCommand, all_args);
  ReadingProgress progress(arguments.quiet, arguments.paths.size());
  if (absl::Status s = arguments.calls.CheckNames(arguments.paths, &progress); !s.ok()) return Fail(kExitTrouble, s);
  const bool of_configs = !calls && arguments.exporter->HoldsConfigs();
  arguments.open = [&](const std::string& path) {
    // What shows how calls relate to the others selects them later.
    return of_configs && arguments.exporter->provenance != Provenance::kAlways ? arguments.calls.Open(path, &progress)
                                                                               : progress.Open(path);
  };
  if (in_series != nullptr) return WriteSeries(arguments, *in_series, series, force);

  const absl::StatusOr<std::unique_ptr<Output>> out = Output::Open(
      arguments.output, {.force = force, .binary = arguments.exporter->binary, .rest_option = all ? "" : "--all"});
  if (!out.ok()) return Fail(kExitTrouble, out.status());
  Remarks notes(&arguments.calls);
  std::ostream* const stream = &(*out)->stream();
  absl::Status written;
  if (of_configs) {
    written = WriteConfigs(arguments, stream, &notes);
  } else if (const auto* const tables = std::get_if<WritesTables>(&arguments.exporter->write)) {
    written = WriteCalls(arguments, *tables, stream, &notes);
  } else if (const auto* const timeline = std::get_if<WritesCalls>(&arguments.exporter->write)) {
    written = WriteTimeline(arguments, *timeline, stream, &notes);
  } else {
    written = WriteCode(arguments, stream, &notes);
  }
  const int exit_code = (*out)->Finish(written.ok() ? notes.Check() : WithPythonOfTraces(written, arguments.paths));
  if (exit_code == kExitOk && !arguments.quiet) {
    notes.Tell(/*quiet=*/false);
    if ((*out)->is_file()) Say(absl::StrCat("wrote ", arguments.output));
  }
  return exit_code;
}

}  // namespace

const Command kExportCommand = {"export", "Write configs or calls for other tools: Parquet, CSV, TorchBench, ...",
                                "Read", RunExport};

}  // namespace torchtrace
