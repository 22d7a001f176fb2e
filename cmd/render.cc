// `torchtrace render`.

#include "serialize/render/render.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/reading/reading_options.h"
#include "nlohmann/json.hpp"
#include "serialize/import/open_trace.h"

namespace torchtrace {
namespace {

constexpr char kRenderFooter[] =
    "Examples:\n"
    "  torchtrace render out                           all files, also after a kill -9\n"
    "  torchtrace render out --formats trace.yaml -o here";

// The folder of the rendered files for the trace at `path`. For a log file: the output folder that contains it.
std::string FolderOf(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return path;
  const std::filesystem::path folder = std::filesystem::absolute(path, error).parent_path();
  return (folder.filename() == "log" ? folder.parent_path() : folder).string();
}

int RunRender(const std::vector<std::string>& args) {
  std::string path, formats = "all";
  RenderOptions options;
  options.render_limit = kNoRenderLimit;
  const auto app = MakeApp(kRenderCommand, "[OPTIONS] TRACE", kRenderFooter);
  app->add_option("TRACE", path, kTraceText)->required();
  app->add_option("--formats", formats, absl::StrCat("Files to write (default: all): ", RenderFormats::Choices()))
      ->option_text("LIST")
      ->check(RenderFormatsCheck());
  app->add_option("-o,--output", options.folder, "Folder for the files (default: the trace's own)")
      ->option_text("DIR")
      ->check(IsFolderName());
  app->add_flag("-f,--force", options.force, "Replace files that exist");
  app->add_option("--render-limit", options.render_limit,
                  "Beyond N calls, leave out the files that list every call (default: no limit)")
      ->option_text("N")
      ->check(IsCount());
  app->add_flag("--merge-output,!--no-merge-output", options.merge_output,
                "All levels in one set of files (the default), or one set for each level");
  std::string stack_format;
  app->add_option("--stack-format", stack_format,
                  "How api_stacks.yaml shows stacks: short, full or api (default: as chosen when recorded)")
      ->option_text("FORMAT")
      ->check(OneOf(StackFormats()));
  bool quiet = false;
  app->add_flag("-q,--quiet", quiet, "Don't report what was written");
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  options.formats = *RenderFormats::Parse(formats);
  if (!stack_format.empty()) options.stack_format = *StackFormats().Parse(stack_format);
  options.trace_path = path;
  const bool in_place = options.folder.empty();
  if (in_place) options.folder = FolderOf(path);

  ReadingProgress progress(quiet);
  const absl::StatusOr<std::unique_ptr<Trace>> trace = progress.Open(path);
  if (!trace.ok()) return Fail(kExitTrouble, trace.status());
  if (!stack_format.empty() && !HasStacks(**trace) && !quiet) {
    Say(absl::StrCat("--stack-format: ", path, " has no stacks: record them with torchtrace run --stacks"));
  }
  if (in_place && (path == "-" || IsImported(**trace))) {
    return Fail(kExitTrouble, absl::StrCat("-o DIR is needed: ", path, " has no output folder of its own"));
  }
  if (in_place) options.mode = FileModeOf(**trace);
  CleanUpOnSignals();
  const absl::StatusOr<RenderReport> report = Render(trace->get(), options);
  if (!report.ok()) return Fail(kExitTrouble, report.status());
  // A run that was killed left no run.json.
  if (in_place && (options.force || !std::filesystem::exists(options.folder + "/run.json"))) {
    const absl::Status written =
        WriteRunInfo(BuildRunInfo(**trace, report->statistics, &*report), options.folder, options.mode);
    if (!written.ok()) return Fail(kExitTrouble, written);
  }
  if (!quiet) {
    for (const std::string& line : RenderReportLines(*report)) Say(line);
    for (const std::string& note : TraceNotes(**trace)) Say(note);
  }
  return kExitOk;
}

}  // namespace

const Command kRenderCommand = {"render", "Write the files of a trace: YAML, text, statistics", "Read", RunRender};

}  // namespace torchtrace
