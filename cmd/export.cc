// `torchtrace export`.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cmd/cli/command.h"
#include "cmd/cli/exit_code.h"
#include "cmd/cli/message.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/reading/reading_options.h"
#include "cmd/reading/reading_progress.h"
#include "serialize/export/call_export.h"
#include "serialize/export/config_export.h"
#include "serialize/export/config_sink.h"
#include "serialize/export/table_writer.h"
#include "serialize/trace/trace.h"
#include "tracer/launch/version.h"

namespace torchtrace {
namespace {

constexpr char kFooter[] =
    "Examples:\n"
    "  torchtrace export torchbench out -o ops.txt\n"
    "  torchtrace export parquet out -o configs/out.parquet\n"
    "  torchtrace export csv --calls out --include 'aten::*' > calls.csv";

struct ExportArguments {
  ExportFormat format = ExportFormat::kText;
  std::vector<std::string> paths;
  ExportFilter filter;
  bool counts = false;
  bool quiet = false;
  std::string python;
};

// A trace is called by its path, without a slash at the end.
std::string LabelOf(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// `missing` gets what is to be told of them.
std::vector<LabelledTrace> Traces(const ExportArguments& arguments, ReadingProgress* progress,
                                  std::vector<std::string>* missing) {
  std::vector<LabelledTrace> traces;
  traces.reserve(arguments.paths.size());
  for (const std::string& path : arguments.paths) {
    const auto tell = [path, missing](const Trace& trace) {
      for (std::string& sentence : WhatIsMissing(path, trace)) missing->push_back(std::move(sentence));
    };
    traces.push_back({LabelOf(path), [path, progress] { return progress->Open(path); }, tell});
  }
  return traces;
}

std::vector<std::pair<std::string, std::string>> Metadata(const ExportArguments& arguments, const char* table) {
  if (arguments.format == ExportFormat::kTritonBench) {
    return {{"generator", absl::StrCat("torchtrace ", kVersion)}, {"traces", absl::StrJoin(arguments.paths, ", ")}};
  }
  return {{"torchtrace.version", kVersion}, {"torchtrace.table", table}};
}

absl::Status WriteConfigs(const ExportArguments& arguments, std::ostream* out, std::vector<std::string>* notes) {
  const SinkOptions options = {
      .counts = arguments.counts, .metadata = Metadata(arguments, "configs"), .python = arguments.python};
  absl::StatusOr<std::unique_ptr<ConfigSink>> sink = MakeConfigSink(arguments.format, out, options);
  if (!sink.ok()) return sink.status();
  ReadingProgress progress(arguments.quiet, arguments.paths.size());
  const absl::Status exported =
      ExportConfigs(Traces(arguments, &progress, notes), arguments.filter, arguments.format, sink->get());
  if (!exported.ok()) return exported;
  if (absl::Status s = (*sink)->Finish(); !s.ok()) return s;
  for (std::string& note : (*sink)->notes()) notes->push_back(std::move(note));
  return absl::OkStatus();
}

absl::Status WriteCalls(const ExportArguments& arguments, std::ostream* out, std::vector<std::string>* notes) {
  std::unique_ptr<TableWriter> table;
  if (arguments.format == ExportFormat::kParquet) {
    absl::StatusOr<std::unique_ptr<TableWriter>> made =
        MakeParquetTable(CallColumns(), Metadata(arguments, "calls"), arguments.python, out);
    if (!made.ok()) return made.status();
    table = *std::move(made);
  } else {
    table =
        arguments.format == ExportFormat::kCsv ? MakeCsvTable(CallColumns(), out) : MakeJsonlTable(CallColumns(), out);
  }
  const CallExportOptions options = {.filter = arguments.filter};
  ReadingProgress progress(arguments.quiet, arguments.paths.size());
  for (const LabelledTrace& labelled : Traces(arguments, &progress, notes)) {
    const absl::StatusOr<std::unique_ptr<Trace>> trace = labelled.open();
    if (!trace.ok()) return trace.status();
    if (absl::Status s = ExportCalls(trace->get(), labelled.label, options, table.get()); !s.ok()) return s;
    labelled.done(**trace);
  }
  return table->Finish();
}

int Run(const std::vector<std::string>& args) {
  ExportArguments arguments;
  std::string format, output;
  bool force = false, calls = false;
  CallFilterOptions filter;
  const auto app = MakeApp(kExportCommand, "[OPTIONS] FORMAT TRACE...", kFooter);
  app->add_option("FORMAT", format, ExportFormatChoices())->required()->check(Checked([](const std::string& text) {
    return ParseExportFormat(text);
  }));
  app->add_option("TRACE", arguments.paths, kTraceText)->required();
  app->add_option("-o,--output", output, "File to write (default: standard output)")
      ->option_text("FILE")
      ->check(IsName());
  app->add_flag("-f,--force", force, "Replace a file that exists");
  app->add_flag("--calls", calls, "A row per call instead of a row per config: jsonl, csv, parquet");
  app->add_flag("--counts", arguments.counts, "text: begin each line with how often it was called");
  app->add_option(
         "--python", arguments.python,
         "parquet: the environment that has pyarrow, by its python or its folder (default: as `run` finds one)")
      ->option_text("PYTHON");
  app->add_flag("-q,--quiet", arguments.quiet, "Don't tell what was left out or written");
  filter.AddTo(app.get());
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  arguments.format = *ParseExportFormat(format);
  arguments.filter = {filter.Globs(), filter.Levels()};
  if (calls && !KeepsProvenance(arguments.format)) {
    return Fail(kExitTrouble,
                absl::StrCat("--calls: ", format, " holds configs only; jsonl, csv and parquet hold calls"));
  }

  const absl::StatusOr<std::unique_ptr<Output>> out =
      Output::Open(output, {.force = force, .binary = IsBinary(arguments.format)});
  if (!out.ok()) return Fail(kExitTrouble, out.status());
  std::vector<std::string> notes;
  std::ostream* const stream = &(*out)->stream();
  const absl::Status written = calls ? WriteCalls(arguments, stream, &notes) : WriteConfigs(arguments, stream, &notes);
  const int exit_code = (*out)->Finish(written);
  if (exit_code == kExitOk && !arguments.quiet) {
    for (const std::string& note : notes) Say(note);
    if ((*out)->is_file()) Say(absl::StrCat("wrote ", output));
  }
  return exit_code;
}

}  // namespace

const Command kExportCommand = {"export", "Write configs or calls for other tools: Parquet, CSV, TorchBench, ...",
                                "Read", Run};

}  // namespace torchtrace
