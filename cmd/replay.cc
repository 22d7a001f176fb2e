// `torchtrace replay`.

#include "replay/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cmd/cli/installation.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/cli/terminal.h"
#include "cmd/reading/reading_options.h"
#include "serialize/base/choices.h"
#include "serialize/base/packed_name.h"
#include "serialize/base/text.h"
#include "serialize/trace/trace.h"
#include "tracer/launch/find_python.h"

namespace torchtrace {
namespace {

constexpr char kReplayFooter[] =
    "Exit code: 0 if every config ended as recorded or was skipped, 1 if one differs, 2 on an error.\n\n"
    "Examples:\n"
    "  torchtrace replay out                                which calls of out end differently here\n"
    "  torchtrace replay out --device cuda -l 2 -o r.json   its operators on another device\n"
    "  torchtrace replay configs.txt --include 'torch.nn.*' --resume results.jsonl\n"
    "  torchtrace replay out --sequence --calls 0-999       its first thousand calls, in order";

constexpr uint64_t kLeastMemory = 64 << 20;  // a worker needs it for itself

struct ReplayArguments {
  std::vector<std::string> paths;
  std::string python, resume, output, format;
  bool force = false, quiet = false, all = false, sequence = false;
  WorkerOptions workers;
  CallSelectionOptions filter;  // source of `selection`
  CallSelection selection;
};

// The format by the suffix of the name; without one, text.
absl::StatusOr<ReplayFormat> FormatOfFile(const std::string& name) {
  static const Choices<ReplayFormat> suffixes("unknown suffix", {{"", ReplayFormat::kText},
                                                                 {".txt", ReplayFormat::kText},
                                                                 {".json", ReplayFormat::kJson},
                                                                 {".csv", ReplayFormat::kCsv},
                                                                 {".xml", ReplayFormat::kJunit}});
  const std::string suffix = absl::AsciiStrToLower(std::filesystem::path(UnpackedName(name)).extension().string());
  absl::StatusOr<ReplayFormat> format = suffixes.Parse(suffix);
  if (format.ok()) return format;
  return absl::InvalidArgumentError(absl::StrCat(
      "'", name, "' has no known format: its name may end in .txt, .json, .csv ", "or .xml; --format names one"));
}

// Remarks on what a sequence leaves out.
std::vector<std::string> SentencesOf(const SequenceFacts& facts) {
  std::vector<std::string> sentences;
  const FlowSummary& flow = facts.flow;
  if (flow.without_id > 0) {
    sentences.push_back(absl::StrCat(flow.without_id,
                                     " tensors have no recorded identity, and are made anew for each call "
                                     "(run --ids --outputs records it)"));
  }
  if (flow.without_result > 0) {
    sentences.push_back(
        absl::StrCat("the results of ", flow.without_result, " calls were not recorded (run --outputs records them)"));
  }
  if (flow.other_processes > 0) {
    sentences.push_back(
        absl::StrCat("left out: ", flow.other_processes, " calls of other processes; a sequence is of one (--rank)"));
  }
  if (flow.never_returned > 0) {
    sentences.push_back(absl::StrCat("left out: ", flow.never_returned, " calls that never returned"));
  }
  if (flow.opened > 0) {
    sentences.push_back(absl::StrCat(Counted(flow.opened, "call", "calls"),
                                     " can't be made again: the calls inside them are made instead"));
  }
  if (facts.deaths > 0) {
    sentences.push_back(
        absl::StrCat("a crash or timeout lost the tensors ", Counted(facts.deaths, "time", "times"),
                     facts.stopped ? ": the replay stopped there" : ": later calls used recorded values"));
  }
  return sentences;
}

// What results depend on, as well as the config.
std::string Conditions(const WorkerOptions& workers, const std::string& torch) {
  return absl::StrCat("--device ", workers.device.empty() ? "as recorded" : workers.device, ", --seed ", workers.seed,
                      ", --threads ", workers.threads, ", --timeout ", workers.timeout_s, ", --max-bytes ",
                      workers.max_bytes, ", --max-memory ", workers.max_memory, ", --python ", workers.python,
                      ", torch ", torch);
}

// The version that workers import.
absl::StatusOr<std::string> VersionOfTorch(const std::string& python) {
  const absl::StatusOr<CommandResult> said = RunCommand(
      {python, "-B", "-c", "import sys; sys.path[:] = filter(None, sys.path); import torch; print(torch.__version__)"});
  if (!said.ok()) return said.status();
  const std::string version(absl::StripAsciiWhitespace(said->standard_output));
  if (said->exit_code == 0 && !version.empty()) return version;
  const auto error = absl::StripAsciiWhitespace(said->standard_error);
  return absl::FailedPreconditionError(absl::StrCat(
      python, " has no torch (", std::string(error.substr(error.rfind('\n') + 1)), "); --python names another one"));
}

absl::StatusOr<std::unique_ptr<ResultStore>> OpenResults(const ReplayArguments& arguments) {
  if (arguments.resume.empty()) return ResultStore::Open("", "");
  const absl::StatusOr<std::string> torch = VersionOfTorch(arguments.workers.python);
  if (!torch.ok()) return torch.status();
  return ResultStore::Open(arguments.resume, Conditions(arguments.workers, *torch));
}

bool AreOneFile(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::weakly_canonical(a, error) == std::filesystem::weakly_canonical(b, error) ||
         std::filesystem::equivalent(a, b, error);
}

// Replays the traces one after the other with the same workers; a trace stays open until its last config was handed
// out. `missing` receives the remarks on them.
absl::Status Replay(const ReplayArguments& arguments, ResultStore* results, ReadingProgress* reading,
                    Remarks* missing) {
  ReplayPlan plan(arguments.selection);
  const size_t traces = arguments.paths.size();
  Progress progress(arguments.quiet);
  std::unique_ptr<Trace> trace;
  size_t opened = 0;
  absl::Status status;
  const auto open = [&]() -> absl::Status {
    absl::StatusOr<std::unique_ptr<Trace>> read = reading->Open(arguments.paths[opened]);
    if (!read.ok()) return read.status();
    trace = *std::move(read);
    return plan.Open(trace.get(), /*last=*/++opened == traces);
  };
  const auto next = [&](ReplayItem* item) {
    while (true) {
      while (trace != nullptr && plan.Next(item)) {
        progress.Show(traces == 1 ? "replaying" : absl::StrCat("replaying trace ", opened, " of ", traces),
                      Progress::kConfigs, plan.looked_at(), plan.configs());
        if (results->Reuse(item->key)) continue;
        item->place = results->Reserve();
        return true;
      }
      status.Update(plan.status());
      if (!status.ok()) return false;
      if (trace != nullptr) missing->Add(arguments.paths[opened - 1], *trace);
      trace.reset();
      if (opened == traces) return false;
      // A trace that can't be read to its end is not replayed at all.
      if (status = open(); !status.ok()) return false;
    }
  };
  const auto done = [&](const ReplayItem& item, const ReplayAnswer& answer) {
    return results->Add(Judge(item, answer), item.place);
  };
  absl::Status called = RunWorkers(arguments.workers, next, done);
  return status.ok() ? called : status;
}

// Replays the calls of one trace in order.
absl::Status ReplayInOrder(const ReplayArguments& arguments, ResultStore* results, SequenceFacts* facts,
                           ReadingProgress* reading, Remarks* missing) {
  if (arguments.paths.size() > 1) return absl::InvalidArgumentError("--sequence takes one trace");
  Progress progress(arguments.quiet);
  const absl::StatusOr<std::unique_ptr<Trace>> trace = reading->Open(arguments.paths.front());
  if (!trace.ok()) return trace.status();
  uint64_t calls = 0;
  const absl::StatusOr<SequenceFacts> replayed =
      ReplaySequence(trace->get(), arguments.selection, arguments.workers, [&](const ReplayResult& result) {
        progress.Show("replaying", Progress::kCalls, ++calls, 0);
        return results->Add(result, results->Reserve());
      });
  if (!replayed.ok()) return replayed.status();
  *facts = *replayed;
  missing->Add(arguments.paths.front(), **trace);
  missing->Add(SentencesOf(*facts));
  return absl::OkStatus();
}

// Else a worker's pipe could become a standard stream, also its own. Each replacement fails like a closed stream.
void OccupyClosedStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) {
      open("/dev/null", (stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    }
  }
}

int RunReplay(const std::vector<std::string>& args) {
  OccupyClosedStreams();
  ReplayArguments arguments;
  WorkerOptions& workers = arguments.workers;
  workers.workers = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  workers.max_bytes = uint64_t{2} << 30;
  workers.max_memory = uint64_t{8} << 30;
  const auto app = MakeApp(kReplayCommand, "[OPTIONS] TRACE...", kReplayFooter);
  app->add_option("TRACE", arguments.paths, kTraceText)->required();
  app->add_option("-o,--output", arguments.output, "File to write (default: standard output)")
      ->option_text("FILE")
      ->check(IsName());
  app->add_flag("-f,--force", arguments.force, "Replace a file that exists");
  app->add_option("--format", arguments.format,
                  "text, json, csv or junit (default: by FILE's suffix, .txt, .json, .csv or .xml, else text)")
      ->option_text("FORMAT")
      ->check(OneOf(ReplayFormats()));
  app->add_flag("--all", arguments.all, "Text: every config, not only those that differ");
  Option* const sequence = app->add_flag("--sequence", arguments.sequence,
                                         "The calls of one trace in order, each with what earlier ones returned");
  Option* const resume = app->add_option("--resume", arguments.resume,
                                         "Write results to FILE as they come, and skip configs that have one there")
                             ->option_text("FILE")
                             ->check(IsName())
                             ->check([](const std::string& name) { return name == "-" ? "needs a file, not -" : ""; });
  app->add_flag("-q,--quiet", arguments.quiet, "Print only errors");
  app->add_option("--device", workers.device, "Call everything on DEVICE in place of where it ran")
      ->option_text("DEVICE")
      ->group("Calling");
  app->add_option("--python", arguments.python, "The environment with torch, by its python or its folder")
      ->option_text("PYTHON")
      ->group("Calling");
  app->add_option("--seed", workers.seed, "Seed of the random values of tensors (default: 0)")
      ->option_text("N")
      ->check(IsCount())
      ->group("Calling");
  app->add_option("-j,--jobs", workers.workers, "Number of worker processes (default: one per processor)")
      ->option_text("N")
      ->check(IsCount(1, 1024))
      ->group("Calling");
  Option* const threads =
      app->add_option("--threads", workers.threads,
                      "Threads of torch in each of them (default: 1; with --sequence as many as torch takes)")
          ->option_text("N")
          ->check(IsCount(1, 1024))
          ->group("Calling");
  sequence->excludes(resume);
  app->add_option("--timeout", workers.timeout_s,
                  "Give a call so many seconds, and as many more for each 64 MiB of inputs (default: 60)")
      ->option_text("SECONDS")
      ->check(IsSeconds(0.001, 1000000))
      ->group("Calling");
  app->add_option("--max-bytes", workers.max_bytes, "Skip calls whose inputs take more (default: 2 GiB)")
      ->option_text("SIZE")
      ->check(IsSize())
      ->group("Calling");
  app->add_option("--max-memory", workers.max_memory, "Memory of a worker beside torch itself (default: 8 GiB)")
      ->option_text("SIZE")
      ->check(IsSize(kLeastMemory))
      ->group("Calling");
  arguments.filter.AddTo(app.get());
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  if (arguments.sequence && threads->count() == 0) workers.threads = 0;
  arguments.filter.Apply(&arguments.selection);
  if (!arguments.resume.empty() && AreOneFile(arguments.resume, arguments.output)) {
    return Fail(kExitTrouble, absl::StrCat("--resume and --output both name ", arguments.output,
                                           ": results are kept in one file, and reported in another"));
  }
  const absl::StatusOr<ReplayFormat> format =
      arguments.format.empty() ? FormatOfFile(arguments.output) : ReplayFormats().Parse(arguments.format);
  if (!format.ok()) return Fail(kExitTrouble, format.status());

  // A sequence shows how many calls were replayed, instead of how much was read.
  ReadingProgress reading(arguments.quiet || arguments.sequence, arguments.paths.size());
  if (absl::Status s = arguments.filter.CheckNames(arguments.paths, &reading); !s.ok()) return Fail(kExitTrouble, s);
  const absl::StatusOr<FoundPython> python = FindPython(arguments.python, EnvironmentOfWheel());
  if (!python.ok()) return Fail(kExitTrouble, python.status());
  workers.python = python->path;
  const absl::StatusOr<std::unique_ptr<Output>> out = Output::Open(arguments.output, {.force = arguments.force});
  if (!out.ok()) return Fail(kExitTrouble, out.status());
  const absl::StatusOr<std::unique_ptr<ResultStore>> results = OpenResults(arguments);
  if (!results.ok()) return Fail(kExitTrouble, results.status());
  Remarks missing(&arguments.filter);
  SequenceFacts facts;
  const absl::Status replayed = arguments.sequence
                                    ? ReplayInOrder(arguments, results->get(), &facts, &reading, &missing)
                                    : Replay(arguments, results->get(), &reading, &missing);
  if (!replayed.ok()) return (*out)->Finish(replayed);

  const ReplayReportOptions report = {.format = *format,
                                      .all = arguments.all,
                                      .device = workers.device,
                                      .seed = workers.seed,
                                      .sequence = arguments.sequence ? &facts : nullptr};
  ReplaySummary summary;
  const absl::Status written = WriteReplayReport(**results, report, &(*out)->stream(), &summary);
  // A reader that has gone away is no failure.
  if (const int code = (*out)->Finish(written); code != kExitOk) return code;
  if (!arguments.quiet) {
    missing.Tell(/*quiet=*/false);
    if ((*results)->reused() > 0) {
      Say(absl::StrCat(Counted((*results)->reused(), "result was", "results were"), " already in ", arguments.resume));
    }
    if ((*results)->damaged() > 0) {
      Say(absl::StrCat(Counted((*results)->damaged(), "line", "lines"), " of ", arguments.resume,
                       " can't be read: their configs were called again"));
    }
    if ((*out)->is_file())
      Say(absl::StrCat("wrote ", arguments.output, ": ",
                       arguments.sequence ? Counted(summary.configs, "call", "calls")
                                          : Counted(summary.configs, "config", "configs")));
  }
  return summary.differ > 0 ? kExitDifferent : kExitOk;
}

}  // namespace

const Command kReplayCommand = {"replay", "Call the configs of traces again: here, on another device, another torch",
                                "Read", RunReplay};

}  // namespace torchtrace
