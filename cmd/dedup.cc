// `torchtrace dedup`.

#include "serialize/configs/dedup.h"

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/export_in_python.h"
#include "cmd/reading/reading_options.h"
#include "cmd/table_facts_of_verbs.h"
#include "serialize/base/text.h"
#include "serialize/configs/family_ranges.h"
#include "serialize/configs/folding.h"
#include "serialize/configs/generalize.h"
#include "serialize/export/exporter.h"
#include "serialize/export/exports.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

constexpr char kDedupFooter[] =
    "Examples:\n"
    "  torchtrace dedup out                               the lines of out/api_configs.txt\n"
    "  torchtrace dedup rank* --ignore device --counts    over several traces\n"
    "  torchtrace dedup out --for tests -o tests.txt      without the numbers of optimizers and the like\n"
    "  torchtrace dedup out --generalize -o configs.yaml --audit audit.json\n"
    "  torchtrace dedup out --ranges                      the sizes that each API was called with";

struct DedupArguments {
  std::vector<std::string> paths;
  std::string output, format, audit, python;
  bool force = false, quiet = false, all = false, counts = false, provenance = false, generalize = false;
  bool ranges = false;
  std::vector<std::string> ignore;
  std::string purpose;
  uint64_t keep_first = 0;
  GeneralizeOptions generalizing;
  CallSelectionOptions calls;
};

bool ToFile(const DedupArguments& arguments) { return !arguments.output.empty() && arguments.output != "-"; }

bool HoldsConfigs(const Exporter& exporter) { return exporter.HoldsConfigs(); }

absl::StatusOr<const Exporter*> ExporterFor(const DedupArguments& arguments) {
  if (!arguments.format.empty()) return FindExporter(arguments.format);
  if (!ToFile(arguments)) return FindExporter("text");
  return FindExporterOfFile(arguments.output, HoldsConfigs);
}

bool HoldsProvenance(const Exporter& exporter) { return exporter.provenance != Provenance::kNone; }

// Checks the arguments before anything is read.
absl::Status CheckArguments(const DedupArguments& arguments, const Exporter& exporter) {
  if (!exporter.HoldsConfigs()) {
    return absl::InvalidArgumentError(absl::StrCat("--format ", exporter.name, ": it holds calls, not configs; ",
                                                   ExporterNames(HoldsConfigs), " hold configs"));
  }
  if (arguments.generalize && arguments.keep_first > 0) {
    return absl::InvalidArgumentError("--keep-first and --generalize both choose configs: give one of them");
  }
  if (!arguments.generalize && !arguments.audit.empty()) {
    return absl::InvalidArgumentError("--audit needs --generalize: give both");
  }
  // Tables always have a column of counts.
  if (arguments.counts && exporter.name != std::string_view("text") && !exporter.HoldsTables()) {
    return absl::InvalidArgumentError(absl::StrCat("--counts is for text and tables, not for ", exporter.name));
  }
  if (arguments.ranges) {
    const std::string_view name = exporter.name;
    const char* const other = arguments.generalize   ? "--generalize"
                              : arguments.provenance ? "--provenance"
                              : arguments.counts     ? "--counts"
                                                     : nullptr;
    if (other != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("--ranges shows families, with their calls: leave out ", other));
    }
    if (name != "text" && name != "json") {
      return absl::InvalidArgumentError(absl::StrCat("--ranges is for text and json, not for ", exporter.name));
    }
  }
  if (arguments.provenance && !HoldsProvenance(exporter)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--provenance: ", exporter.name, " can't hold it; ", ExporterNames(HoldsProvenance), " can"));
  }
  if (absl::Status s = CheckFileName(exporter, arguments.output); !s.ok()) return s;
  if (!arguments.audit.empty() && arguments.audit == arguments.output) {
    return absl::InvalidArgumentError(absl::StrCat(arguments.audit, " can't be both the output and the audit"));
  }
  return absl::OkStatus();
}

// Drops the configs that --generalize doesn't keep. `audit` may be null.
absl::Status GeneralizeConfigs(const DedupArguments& arguments, std::ostream* audit,
                               std::vector<DedupConfig>* configs) {
  std::vector<std::string_view> identities;
  identities.reserve(configs->size());
  for (const DedupConfig& config : *configs) identities.push_back(config.identity);
  absl::StatusOr<GeneralizeResult> result;
  if (audit == nullptr) {
    result = Generalize(identities, arguments.generalizing);
  } else {
    AuditWriter writer(*AuditFormatOf(arguments.audit), configs, audit);
    result = Generalize(identities, arguments.generalizing,
                        [&writer](const GeneralizeEntry& entry) { return writer.Add(entry); });
    if (result.ok()) {
      if (absl::Status s = writer.Finish(arguments.generalizing, *result); !s.ok()) return s;
    }
  }
  if (!result.ok()) return result.status();
  if (result->families_cut > 0 && !arguments.quiet) {
    Say(absl::StrCat("--budget ", arguments.generalizing.budget, " was too small for ", result->families_cut, " of ",
                     result->families, " families: ", result->features_lost,
                     " features are not covered (--budget 0: no limit)"));
  }
  size_t index = 0;
  std::erase_if(*configs, [&](const DedupConfig&) { return !result->kept[index++]; });
  return absl::OkStatus();
}

int RunDedup(const std::vector<std::string>& args) {
  DedupArguments arguments;
  const auto app = MakeApp(kDedupCommand, "[OPTIONS] TRACE...", kDedupFooter);
  app->add_option("TRACE", arguments.paths, kTraceText)->required();
  app->add_option("-o,--output", arguments.output, "File to write (default: standard output)")
      ->option_text("FILE")
      ->check(IsName());
  app->add_flag("-f,--force", arguments.force, "Replace files that exist");
  app->add_option("--format", arguments.format,
                  absl::StrCat(ExporterNames(HoldsConfigs), " (default: by FILE's suffix, else text)"))
      ->option_text("FORMAT")
      ->check(Completed(Checked([](const std::string& text) { return FindExporter(text); }),
                        [] { return ExporterNameList(HoldsConfigs); }));
  app->add_flag("--counts", arguments.counts, "Begin each line of text with its number of calls");
  app->add_flag("--all", arguments.all, kAllLinesText);
  app->add_flag("--provenance", arguments.provenance, "Add the traces and processes that each config comes from");
  app->add_option("--python", arguments.python, kExportPythonText)->option_text("PYTHON");
  app->add_flag("-q,--quiet", arguments.quiet, "Don't report what was written");
  app->add_option("--ignore", arguments.ignore, absl::StrCat("Ignore these parts: ", Coarsening::Choices()))
      ->option_text("LIST")
      ->allow_extra_args(false)
      ->check(CompletedLists(Checked([](const std::string& text) { return Coarsening::Parse(SplitLists({text})); }),
                             Coarsening::Names))
      ->group("Choosing");
  app->add_option("--for", arguments.purpose,
                  "tests: keep one config of those that differ only in numbers of optimizers, indices of data, seeds "
                  "or arguments of getters, and report what was folded")
      ->option_text("WHAT")
      ->check(Completed(Checked([](const std::string& text) { return Folding::For(text); }), Folding::Purposes))
      ->group("Choosing");
  app->add_option("--keep-first", arguments.keep_first, "Only the first N configs of each API")
      ->option_text("N")
      ->check(IsCount())
      ->group("Choosing");
  app->add_flag("--ranges", arguments.ranges,
                "Instead of configs that differ only in sizes and numbers, show once how small and how large each was "
                "(text and json)")
      ->group("Choosing");
  Option* const generalize =
      app->add_flag("--generalize", arguments.generalize,
                    "Of configs that differ only in sizes and numbers, keep a subset that covers what matters")
          ->group("Choosing");
  app->add_option("--seed", arguments.generalizing.seed, "Which of equally good configs to keep (default: 0)")
      ->option_text("N")
      ->check(IsCount())
      ->needs(generalize)
      ->group("Choosing");
  app->add_option("--budget", arguments.generalizing.budget,
                  absl::StrCat("At most N configs of each family; 0: no limit (default: ", kDefaultFamilyBudget, ")"))
      ->option_text("N")
      ->check(IsCount())
      ->needs(generalize)
      ->group("Choosing");
  app->add_option("--audit", arguments.audit, "Write whether each config was kept and why: .json, .jsonl or .csv")
      ->option_text("FILE")
      ->check(Checked([](const std::string& text) { return AuditFormatOf(text); }))
      ->group("Choosing");
  arguments.calls.AddTo(app.get());
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;

  const absl::StatusOr<const Exporter*> chosen = ExporterFor(arguments);
  if (!chosen.ok()) return Fail(kExitTrouble, chosen.status());
  const Exporter& exporter = **chosen;
  if (absl::Status s = CheckArguments(arguments, exporter); !s.ok()) return Fail(kExitTrouble, s);
  if (NeedsPython(exporter)) return ContinueInPython(exporter, arguments.python, kDedupCommand, args);

  ReadingProgress progress(arguments.quiet, arguments.paths.size());
  if (absl::Status s = arguments.calls.CheckNames(arguments.paths, &progress); !s.ok()) return Fail(kExitTrouble, s);
  const absl::StatusOr<std::unique_ptr<Output>> out =
      Output::Open(arguments.output,
                   {.force = arguments.force, .binary = exporter.binary, .rest_option = arguments.all ? "" : "--all"});
  if (!out.ok()) return Fail(kExitTrouble, out.status());
  std::unique_ptr<Output> audit;
  if (!arguments.audit.empty()) {
    absl::StatusOr<std::unique_ptr<Output>> opened = Output::Open(arguments.audit, {.force = arguments.force});
    if (!opened.ok()) return Fail(kExitTrouble, opened.status());
    audit = *std::move(opened);
  }

  DedupOptions options;
  options.filter = arguments.calls.Globs();
  options.levels = arguments.calls.Levels();
  options.ignore = *Coarsening::Parse(SplitLists(arguments.ignore));
  if (!arguments.purpose.empty()) options.folding = *Folding::For(arguments.purpose);
  options.levels_apart = exporter.levels;
  options.provenance = arguments.provenance;
  options.times = arguments.provenance || exporter.provenance == Provenance::kAlways;
  options.keep_first = arguments.keep_first;
  Dedup dedup(std::move(options));
  Remarks missing(&arguments.calls);
  for (const std::string& path : arguments.paths) {
    const absl::StatusOr<std::unique_ptr<Trace>> trace = arguments.calls.Open(path, &progress);
    if (!trace.ok()) return Fail(kExitTrouble, trace.status());
    if (absl::Status s = dedup.Add(trace->get(), path); !s.ok()) return Fail(kExitTrouble, s);
    missing.Add(path, **trace);
  }
  if (absl::Status s = missing.Check(); !s.ok()) return Fail(kExitTrouble, s);
  std::vector<DedupConfig> configs = dedup.Finish();
  if (!arguments.quiet) {
    for (const DedupFold& fold : dedup.folds()) {
      Say(absl::StrCat("folded ", Counted(fold.before, "config", "configs"), " into ", fold.after, ": ", fold.rule));
    }
  }
  if (arguments.generalize) {
    const absl::Status done = GeneralizeConfigs(arguments, audit == nullptr ? nullptr : &audit->stream(), &configs);
    if (!done.ok()) return audit == nullptr ? Fail(kExitTrouble, done) : audit->Finish(done);
  }

  const std::unique_ptr<TableFacts> facts = MakeTableFacts();
  DedupOutput output;
  output.exporter = &exporter;
  output.counts = arguments.counts;
  output.provenance = arguments.provenance;
  output.facts = facts.get();
  absl::StatusOr<std::vector<std::string>> notes = std::vector<std::string>();
  if (!arguments.ranges) {
    notes = WriteDedup(configs, dedup.sources(), output, &(*out)->stream());
  } else if (absl::Status s = WriteRanges(configs, exporter.name == std::string_view("json"), &(*out)->stream());
             !s.ok()) {
    notes = s;
  }
  if (audit != nullptr) {
    if (absl::Status s = audit->Flush(); !s.ok()) return Fail(kExitTrouble, s);
  }
  // A reader that has gone away is no failure.
  const absl::Status written = WithPythonOfTraces(notes.status(), arguments.paths);
  if (const int code = (*out)->Finish(written); code != kExitOk) return code;
  if (!arguments.quiet) {
    if (notes.ok()) missing.Add(*notes);
    missing.Tell(/*quiet=*/false);
    if ((*out)->is_file()) {
      Say(absl::StrCat("wrote ", arguments.output, ": ", Counted(configs.size(), "config", "configs")));
    }
  }
  if (audit != nullptr) {
    if (const int code = audit->Finish(absl::OkStatus()); code != kExitOk) return code;
    if (!arguments.quiet) Say(absl::StrCat("wrote ", arguments.audit));
  }
  return kExitOk;
}

}  // namespace

const Command kDedupCommand = {"dedup", "Gather the unique configs of traces", "Read", RunDedup};

}  // namespace torchtrace
