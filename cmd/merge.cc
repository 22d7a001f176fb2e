// `torchtrace merge`.

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/cli/terminal.h"
#include "cmd/reading/new_trace_folder.h"
#include "cmd/reading/reading_options.h"
#include "nlohmann/json.hpp"
#include "serialize/base/read_file.h"
#include "serialize/edit/edit.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

constexpr char kMergeFooter[] =
    "TRACE is an output folder, a log, another tool's file, a folder of output folders, or -.\n"
    "A manifest has one TRACE a line, or TRACE, a tab and a label; blank lines and those that\n"
    "start with # are skipped; - is standard input.\n"
    "\n"
    "Examples:\n"
    "  torchtrace merge out-0 out-1 out-2 out-3 -o all\n"
    "  torchtrace merge --label gpt2=runs/1 --label bert=runs/2 -o models\n"
    "  find runs -name log | torchtrace merge --manifest - -o all --formats configs";

constexpr char kMergedLog[] = "log/merged.ttlog";

struct MergeArguments {
  std::vector<std::string> paths;
  std::vector<std::string> labels;  // NAME=PATH
  std::string manifest;
  std::string output;
  bool force = false;
  RenderingOptions rendering;
};

// Empty, or what is wrong with the label.
std::string CheckLabel(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals != std::string::npos && equals > 0 && equals + 1 < text.size()) return "";
  return absl::StrCat("'", text, "' has no name or no trace: expected NAME=TRACE");
}

absl::Status ReadManifest(const std::string& path, std::vector<MergeInput>* inputs) {
  const bool standard_input = path == "-";
  const absl::StatusOr<std::string> text =
      standard_input ? ReadWholeFile(stdin, "standard input") : ReadWholeFile(path);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat("the manifest: ", text.status().message()));
  }
  int number = 0;
  for (const auto each : absl::StrSplit(*text, '\n')) {
    std::string line(each);
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    const size_t tab = line.find('\t');
    if (line.find('\0') != std::string::npos || tab == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the manifest ", path, ", line ", number, ": expected a TRACE, or a TRACE, a tab and a label"));
    }
    inputs->push_back({line.substr(0, tab), tab == std::string::npos ? "" : line.substr(tab + 1)});
  }
  return absl::OkStatus();
}

// The inputs in the order given: positional ones, those that only --label names, the manifest's.
absl::StatusOr<std::vector<MergeInput>> GatherInputs(const MergeArguments& arguments) {
  std::vector<MergeInput> named;
  for (const std::string& path : arguments.paths) named.push_back({path, ""});
  if (!arguments.manifest.empty()) {
    if (absl::Status s = ReadManifest(arguments.manifest, &named); !s.ok()) return s;
  }
  const auto same = [](const std::string& a, const std::string& b) {
    std::error_code error;
    return a == b || std::filesystem::equivalent(a, b, error);
  };
  size_t next = arguments.paths.size();
  for (const std::string& text : arguments.labels) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const std::string path = text.substr(equals + 1);
    bool found = false;
    for (MergeInput& input : named) {
      if (!same(input.path, path)) continue;
      found = true;
      input.label = name;
    }
    if (!found) named.insert(named.begin() + static_cast<ptrdiff_t>(next++), {path, name});
  }
  if (named.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("nothing to merge: give a TRACE, --label or --manifest", SeeHelp("merge")));
  }
  std::vector<MergeInput> inputs;
  for (const MergeInput& input : named) {
    const absl::StatusOr<std::vector<MergeInput>> expanded = ExpandMergeInput(input);
    if (!expanded.ok()) return expanded.status();
    inputs.insert(inputs.end(), expanded->begin(), expanded->end());
  }
  return inputs;
}

// Returns lines that summarize the new trace.
absl::StatusOr<std::vector<std::string>> MergeInto(const std::vector<MergeInput>& inputs,
                                                   const MergeArguments& arguments) {
  if (absl::Status s = CheckMergeInputs(inputs); !s.ok()) return s;
  uint64_t bytes = 0;
  for (const MergeInput& input : inputs) bytes += MergeInputBytes(input.path);
  const absl::StatusOr<std::unique_ptr<NewTraceFolder>> folder =
      NewTraceFolder::Create(arguments.output, {.force = arguments.force, .readable = arguments.rendering.readable});
  if (!folder.ok()) return folder.status();
  const std::string& path = (*folder)->path();
  std::vector<std::string> notes;
  {
    Progress progress(arguments.rendering.quiet);
    uint64_t done = 0;
    ReadingProgress reading(arguments.rendering.quiet);
    const absl::Status merged = MergeInputs(
        inputs, (std::filesystem::path(path) / kMergedLog).string(),
        [&](uint64_t more) {
          progress.Show("merging", Progress::kBytes, done += more, bytes);
          return absl::OkStatus();
        },
        &notes, reading.NextObserver());
    if (!merged.ok()) return (*folder)->Shown(merged);
  }
  absl::StatusOr<std::vector<std::string>> lines = WriteNewTraceFiles(**folder, arguments.output, arguments.rendering);
  if (!lines.ok()) return lines;
  lines->insert(lines->begin(), notes.begin(), notes.end());
  if (absl::Status s = (*folder)->Commit(); !s.ok()) return s;
  return lines;
}

int RunMerge(const std::vector<std::string>& args) {
  MergeArguments arguments;
  const auto app = MakeApp(kMergeCommand, "[OPTIONS] TRACE... -o DIR", kMergeFooter);
  app->add_option("TRACE", arguments.paths, "What to merge, in this order unless clocks give another");
  app->add_option("-o,--output", arguments.output, "Folder for the merged trace")
      ->option_text("DIR")
      ->check(IsFolderName())
      ->required();
  app->add_flag("-f,--force", arguments.force, "Overwrite the trace that is in DIR, once the new one is complete");
  app->add_option("--label", arguments.labels, "Merge TRACE, as a run with this name")
      ->option_text("NAME=TRACE")
      ->allow_extra_args(false)
      ->check(CheckLabel);
  app->add_option("--manifest", arguments.manifest, "Also merge the traces that FILE lists")->option_text("FILE");
  arguments.rendering.AddTo(app.get());
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;

  const absl::StatusOr<std::vector<MergeInput>> inputs = GatherInputs(arguments);
  if (!inputs.ok()) return Fail(kExitTrouble, inputs.status());
  for (const MergeInput& input : *inputs) {
    if (absl::Status s = CheckInput(input.path, arguments.output); !s.ok()) return Fail(kExitTrouble, s);
  }
  const absl::StatusOr<std::vector<std::string>> merged = MergeInto(*inputs, arguments);
  if (!merged.ok()) return Fail(kExitTrouble, merged.status());
  if (!arguments.rendering.quiet) {
    for (const std::string& line : *merged) Say(line);
  }
  return kExitOk;
}

}  // namespace

const Command kMergeCommand = {"merge", "Make one trace of many: processes, ranks, runs, models", "Make", RunMerge};

}  // namespace torchtrace
