// `torchtrace filter`.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/reading/new_trace_folder.h"
#include "cmd/reading/reading_options.h"
#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/edit/edit.h"
#include "serialize/import/open_trace.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

constexpr char kFilterFooter[] =
    "A call is kept when it passes every filter. docs/FILTER.md has the groups and the\n"
    "conditions of --where.\n"
    "\n"
    "Examples:\n"
    "  torchtrace filter out -o half --where 'dtype = float16 and ndim >= 3'\n"
    "  torchtrace filter out -o matmuls --include %matmul --with-parents\n"
    "  torchtrace filter out -o slow --level 1 --where 'duration > 1ms or raised'\n"
    "  torchtrace filter out -o part --calls 1000-1999,@calls.txt --thread 0";

constexpr char kFilteredLog[] = "log/filtered.ttlog";

struct FilterArguments {
  std::string path;
  std::string output;
  bool force = false;
  RenderingOptions rendering;
  CallSelectionOptions calls;
  bool with_parents = false;
};

// The entry in run.json: the options as typed.
nlohmann::json Describe(const FilterArguments& arguments, const FilterOptions& options) {
  nlohmann::json description = {{"from", arguments.path}};
  const auto add = [&](const char* name, const std::vector<std::string>& list) {
    if (!list.empty()) description[name] = SplitLists(list);
  };
  const auto add_text = [&](const char* name, const std::string& text) {
    if (!text.empty()) description[name] = text;
  };
  add("include", arguments.calls.include);
  add("exclude", arguments.calls.exclude);
  add_text("groups", arguments.calls.groups);
  if (!options.levels.empty()) description["levels"] = options.levels;
  add_text("calls", arguments.calls.numbers);
  add("threads", arguments.calls.threads);
  add_text("ranks", arguments.calls.ranks);
  if (arguments.calls.skip_steps > 0) description["skip_steps"] = arguments.calls.skip_steps;
  add_text("where", arguments.calls.where);
  if (options.with_parents) description["with_parents"] = true;
  return description;
}

absl::StatusOr<std::vector<std::string>> FilterInto(const FilterArguments& arguments, const FilterOptions& options) {
  ReadingProgress filtering(arguments.rendering.quiet, 1, "filtering");
  if (absl::Status s = arguments.calls.CheckNames({arguments.path}, &filtering); !s.ok()) return s;
  const absl::StatusOr<std::unique_ptr<Trace>> source = filtering.Open(arguments.path);
  if (!source.ok()) return source.status();
  const absl::StatusOr<std::unique_ptr<NewTraceFolder>> folder =
      NewTraceFolder::Create(arguments.output, {.force = arguments.force, .readable = arguments.rendering.readable});
  if (!folder.ok()) return folder.status();
  FilterReport filtered;
  {
    const std::string log = (std::filesystem::path((*folder)->path()) / kFilteredLog).string();
    const absl::StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(log);
    if (!writer.ok()) return (*folder)->Shown(writer.status());
    const absl::StatusOr<FilterReport> report = FilterTrace(source->get(), options, writer->get());
    if (!report.ok()) return (*folder)->Shown(report.status());
    filtered = *report;
    if (absl::Status s = (*writer)->Finish(); !s.ok()) return (*folder)->Shown(s);
  }
  absl::StatusOr<std::vector<std::string>> lines = WriteNewTraceFiles(**folder, arguments.output, arguments.rendering);
  if (!lines.ok()) return lines;
  std::string kept = absl::StrCat("kept ", filtered.kept, " of ", Counted(filtered.read, "call", "calls"));
  if (options.with_parents) {
    absl::StrAppend(&kept, ", ", filtered.parents, " of them as parents of kept calls");
  }
  lines->insert(lines->begin(), std::move(kept));
  if (absl::Status s = (*folder)->Commit(); !s.ok()) return s;
  for (std::string& note : TraceNotes(**source)) lines->push_back(std::move(note));
  if (filtered.kept == 0 && filtered.read > 0) lines->push_back(arguments.calls.NoCallMatches());
  return lines;
}

int RunFilter(const std::vector<std::string>& args) {
  FilterArguments arguments;
  const auto app = MakeApp(kFilterCommand, "[OPTIONS] TRACE -o DIR", kFilterFooter);
  app->add_option("TRACE", arguments.path, kTraceText)->required();
  app->add_option("-o,--output", arguments.output, "Folder for the calls that are kept")
      ->option_text("DIR")
      ->check(IsFolderName())
      ->required();
  app->add_flag("-f,--force", arguments.force, "Overwrite the trace that is in DIR, once the new one is complete");
  arguments.calls.AddTo(app.get());
  app->add_flag("--with-parents", arguments.with_parents, "Keep the calls around a kept call as well")
      ->group("Filtering");
  arguments.rendering.AddTo(app.get());
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  if (absl::Status s = CheckInput(arguments.path, arguments.output); !s.ok()) return Fail(kExitTrouble, s);
  FilterOptions options;
  arguments.calls.Apply(&options);
  options.with_parents = arguments.with_parents;
  options.description = Describe(arguments, options);

  const absl::StatusOr<std::vector<std::string>> summary = FilterInto(arguments, options);
  if (!summary.ok()) return Fail(kExitTrouble, summary.status());
  if (!arguments.rendering.quiet) {
    for (const std::string& line : *summary) Say(line);
  }
  return kExitOk;
}

}  // namespace

const Command kFilterCommand = {"filter", "Make a trace of some calls of another", "Make", RunFilter};

}  // namespace torchtrace
