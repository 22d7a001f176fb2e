// `torchtrace report`.

#include "serialize/report/report.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cmd/apis.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/cli/terminal.h"
#include "cmd/reading/reading_options.h"
#include "serialize/trace/trace.h"
#include "tracer/launch/run_metadata.h"

namespace torchtrace {
namespace {

constexpr char kReportFooter[] =
    "A page needs no network and sends nothing. It has the trace's command line, paths and arguments, as its files "
    "do.\n"
    "\n"
    "Examples:\n"
    "  torchtrace report out\n"
    "  torchtrace report out --sources -o out.html\n"
    "  torchtrace report before after -o compared.html";

int RunReport(const std::vector<std::string>& args) {
  std::string a_path, b_path, output = "report.html";
  bool force = false, quiet = false;
  ReportOptions options;
  const auto app = MakeApp(kReportCommand, "[OPTIONS] TRACE [TRACE_B]", kReportFooter);
  app->add_option("TRACE", a_path, kTraceText)->required();
  Option* const b_option = app->add_option("TRACE_B", b_path, "Another one, to show beside it");
  app->add_option("-o,--output", output, "File to write (default: report.html); - is standard output")
      ->option_text("FILE")
      ->check(IsName());
  app->add_flag("-f,--force", force, "Replace a file that exists");
  app->add_flag("--sources", options.sources,
                "Put the Python files into the page whose lines made calls: needs run --stacks, and the files "
                "unchanged on this machine");
  AddQuiet(app.get(), &quiet);
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  options.version = kVersion;
  options.coverage = WriteDefaultCoverage;
  if (output == "-") output.clear();
  std::vector<std::string> paths = {a_path};
  if (*b_option) paths.push_back(b_path);

  const absl::StatusOr<std::unique_ptr<Output>> out = Output::Open(output, {.force = force, .binary = true});
  if (!out.ok()) return Fail(kExitTrouble, out.status());
  ReadingProgress progress(quiet, paths.size());
  std::vector<std::unique_ptr<Trace>> opened;
  std::vector<StatsTrace> traces;
  for (const std::string& path : paths) {
    absl::StatusOr<std::unique_ptr<Trace>> trace = progress.Open(path);
    if (!trace.ok()) return Fail(kExitTrouble, trace.status());
    opened.push_back(*std::move(trace));
    traces.push_back({opened.back().get(), path == "-" ? "standard input" : path});
  }
  Remarks remarks;
  std::vector<std::string> notes;
  const absl::Status written = WriteReportPage(traces, options, &(*out)->stream(), &notes);
  for (size_t i = 0; written.ok() && i < traces.size(); ++i) {
    remarks.Add(paths[i], *opened[i]);
    remarks.AddOpenCalls(paths[i], *opened[i]);
  }
  remarks.Add(notes);
  const int exit_code = (*out)->Finish(written.ok() ? remarks.Check() : written);
  if (exit_code == kExitOk) {
    remarks.Tell(quiet);
    if ((*out)->is_file() && !quiet) Say(absl::StrCat("wrote ", output, ", for a browser"));
  }
  return exit_code;
}

}  // namespace

const Command kReportCommand = {"report", "Make a page of a trace, or of two compared, to look at in a browser", "Read",
                                RunReport};

}  // namespace torchtrace
