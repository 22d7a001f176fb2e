// `torchtrace diff`.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/cli/terminal.h"
#include "cmd/diff_numbers.h"
#include "cmd/diff_one_trace.h"
#include "cmd/diff_times.h"
#include "cmd/reading/reading_options.h"
#include "serialize/configs/dedup.h"
#include "serialize/diff/reports.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

constexpr char kDiffFooter[] =
    "Exits with 0 when what is compared is the same, 1 when it differs, 2 on errors. With\n"
    "--fail-on 1 is only for a gate that fires; --time alone exits with 0.\n\n"
    "Examples:\n"
    "  torchtrace diff before after\n"
    "  torchtrace diff cpu gpu --ignore device,counts --level 2\n"
    "  torchtrace diff before after --sequence --max-hunks 3\n"
    "  torchtrace diff yesterday today --numbers\n"
    "  torchtrace diff before after --summary && echo the same\n"
    "  torchtrace diff before after --time --by module\n"
    "  torchtrace diff before after --fail-on added-api,slower=10%\n"
    "  torchtrace diff --recomputed out\n"
    "  torchtrace diff --across-ranks out";

constexpr char kCounts[] = "counts";

// The number of lines that fit on a screen, without those around them.
constexpr size_t kLinesAroundTable = 15, kLeastRows = 5;
constexpr uint64_t kScreenHunks = 3;
constexpr uint64_t kScreenCalls = 10;

// The items of --ignore, from one list with commas or several.
struct Ignored {
  Coarsening coarsening;
  bool counts = false;
  std::vector<std::string> names;  // without duplicates
};

std::vector<std::string> Ignorable() {
  std::vector<std::string> names = Coarsening::Names();
  names.emplace_back(kCounts);
  return names;
}

absl::StatusOr<Ignored> ParseIgnored(const std::vector<std::string>& lists) {
  Ignored ignored;
  std::vector<std::string> parts;
  for (std::string& name : SplitLists(lists)) {
    if (std::find(ignored.names.begin(), ignored.names.end(), name) != ignored.names.end()) continue;
    if (name == kCounts) {
      ignored.counts = true;
    } else {
      parts.push_back(name);
    }
    ignored.names.push_back(std::move(name));
  }
  absl::StatusOr<Coarsening> coarsening = Coarsening::Parse(parts);
  if (!coarsening.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(coarsening.status().message()), ", ", kCounts));
  }
  ignored.coarsening = *std::move(coarsening);
  return ignored;
}

int RunDiff(const std::vector<std::string>& args) {
  std::string a_path, b_path, format = "text";
  std::vector<std::string> ignore;
  bool sequence = false, all = false, quiet = false;
  bool recomputed = false, across_ranks = false;
  DiffOptions options;
  SequenceOptions sequence_options;
  CallSelectionOptions selection;
  TextOptions text;
  NumberFlags numbers;
  TimeFlags times;
  const auto app = MakeApp(kDiffCommand, "[OPTIONS] A [B]", kDiffFooter);
  app->add_option("A", a_path, kTraceText)->required();
  Option* const b_option = app->add_option("B", b_path, "The trace that A is compared with");
  app->add_option("--ignore", ignore,
                  absl::StrCat("Don't compare these (a list with commas): ", Coarsening::Choices(), ", ", kCounts))
      ->option_text("WHAT")
      ->allow_extra_args(false)
      ->check(CompletedLists(Checked([](const std::string& text) { return ParseIgnored({text}); }), Ignorable));
  app->add_flag("--summary", options.summary, "Only the numbers and the common changes");
  Option* const top_option =
      app->add_option("--top", options.top,
                      "Only the N APIs and N configs with the most calls; first rows of --time, 0: all")
          ->option_text("N")
          ->check(IsCount());
  app->add_flag("--all", all,
                "Everything; otherwise a terminal gets one screen, without the rows that the common changes explain");
  selection.AddTo(app.get());
  AddQuiet(app.get(), &quiet);

  times.AddTo(app.get());

  Option* const in_order =
      app->add_flag("--sequence", sequence, "Align the calls of both in order, each thread and level separately")
          ->group("Sequence");
  app->add_flag("--nested", sequence_options.levels_together,
                "Align all levels of a thread as one sequence; also with --numbers")
      ->group("Sequence");
  app->add_option("--context", sequence_options.context, "Calls shown around a change (default: 3)")
      ->option_text("N")
      ->check(IsCount())
      ->needs(in_order)
      ->group("Sequence");
  Option* const max_hunks =
      app->add_option("--max-hunks", sequence_options.max_hunks, "Hunks shown; 0: all (default: 20)")
          ->option_text("N")
          ->check(IsCount())
          ->needs(in_order)
          ->group("Sequence");
  Option* const max_calls =
      app->add_option("--max-calls", sequence_options.max_calls, "Calls shown of one hunk; 0: all (default: 100)")
          ->option_text("N")
          ->check(IsCount())
          ->needs(in_order)
          ->group("Sequence");

  numbers.AddTo(app.get());

  app->add_flag("--recomputed", recomputed, "What checkpoints ran again in backward passes, beside the forward run")
      ->excludes(in_order)
      ->group("One trace");
  app->add_flag("--across-ranks", across_ranks, "The collectives of all ranks, aligned by process group")
      ->excludes(in_order)
      ->group("One trace");

  app->add_option("--format", format, "text, json, markdown or, of gates, junit (default: text)")
      ->option_text("FORMAT")
      ->check(OneOf(DiffFormats()));
  text.AddTo(app.get());
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;

  const auto usage_error = [](const std::string& what) {
    return Fail(kExitTrouble, absl::StrCat(what, SeeHelp("diff")));
  };
  if (recomputed || across_ranks) {
    const std::string flag = recomputed ? "--recomputed" : "--across-ranks";
    if (recomputed && across_ranks) return usage_error("--recomputed and --across-ranks are two questions: ask one");
    if (b_option->count() != 0) return usage_error(absl::StrCat(flag, " is about one trace: B is one too many"));
    if (!ignore.empty()) return usage_error(absl::StrCat("--ignore is not for ", flag));
    if (numbers.on()) return usage_error(absl::StrCat("--numbers is not for ", flag, ", which compares them anyway"));
    if (!times.Given().empty()) return usage_error(absl::StrCat(times.Given(), " is not for ", flag));
    if (const char* const other = options.summary                    ? "--summary"
                                  : options.top > 0                  ? "--top"
                                  : sequence_options.levels_together ? "--nested"
                                                                     : nullptr;
        other != nullptr) {
      return usage_error(absl::StrCat(other, " is not for ", flag));
    }
    if (const DiffFormat chosen = *DiffFormats().Parse(format);
        chosen == DiffFormat::kMarkdown || chosen == DiffFormat::kJunit) {
      return usage_error(absl::StrCat(flag, " writes text or json"));
    }
    return RunOneTraceDiff(recomputed ? OneTraceDiff::kRecomputed : OneTraceDiff::kAcrossRanks,
                           {.scope = {},
                            .name = a_path,
                            .json = *DiffFormats().Parse(format) == DiffFormat::kJson,
                            .color = text.UsesColor(),
                            .all = all},
                           &selection, text.no_pager, quiet);
  }
  if (b_option->count() == 0) return usage_error("B is required");
  const absl::StatusOr<Ignored> ignored = ParseIgnored(ignore);
  if (const std::string given = times.Given(); !given.empty() && (numbers.on() || sequence)) {
    return usage_error(absl::StrCat(given, " is not for ", sequence ? "--sequence" : "--numbers"));
  }
  if (absl::Status s = times.Check(*DiffFormats().Parse(format)); !s.ok()) {
    return usage_error(std::string(s.message()));
  }
  if (sequence_options.levels_together && !sequence && !numbers.on()) {
    return usage_error("--nested needs --sequence or --numbers");
  }
  if (sequence && ignored->counts) return usage_error("--ignore counts: --sequence doesn't compare counts");
  if (numbers.on() && sequence) return usage_error("--numbers and --sequence exclude each other");
  if (numbers.on() && ignored->counts) return usage_error("--ignore counts: --numbers doesn't compare counts");
  if (numbers.on() && options.top > 0) return usage_error("--top is not for --numbers");
  if (sequence && options.top > 0) return usage_error("--top is not for --sequence: give --max-hunks");
  if (a_path == "-" && b_path == "-") return usage_error("only one of A and B can be standard input");
  options.scope.coarsening = ignored->coarsening;
  options.scope.filter = selection.Globs();
  options.scope.levels = selection.Levels();
  options.compare_counts = !ignored->counts;
  times.Apply(&options);
  options.ignored = ignored->names;
  // If levels are ignored in comparing calls, they must not separate a thread's calls either.
  if (std::find(ignored->names.begin(), ignored->names.end(), "level") != ignored->names.end()) {
    sequence_options.levels_together = true;
  }
  options.a_name = a_path;
  options.b_name = b_path;
  options.format = *DiffFormats().Parse(format);
  options.color = text.UsesColor();
  if (all) {
    if (max_hunks->count() == 0) sequence_options.max_hunks = 0;
    if (max_calls->count() == 0) sequence_options.max_calls = 0;
  } else if (const size_t lines = TerminalLines(); lines > 0) {
    if (options.top == 0) options.max_rows = std::max(kLeastRows, lines - std::min(lines, kLinesAroundTable));
    if (max_hunks->count() == 0) sequence_options.max_hunks = kScreenHunks;
    if (max_calls->count() == 0) sequence_options.max_calls = kScreenCalls;
  }

  NumberDiffOptions number_options;
  if (numbers.on()) number_options = numbers.Apply(&options, ignored->names);
  number_options.all = all;
  number_options.levels_together = sequence_options.levels_together;

  ReadingProgress progress(quiet, 2);
  if (absl::Status s = selection.CheckNames({a_path, b_path}, &progress); !s.ok()) return Fail(kExitTrouble, s);
  // A comparison of times chooses calls itself: those that it leaves out take time in the calls around them.
  const auto open = [&](const std::string& path) {
    return times.times() ? progress.Open(path) : selection.Open(path, &progress);
  };
  const absl::StatusOr<std::unique_ptr<Trace>> a = open(a_path);
  if (!a.ok()) return Fail(kExitTrouble, a.status());
  const absl::StatusOr<std::unique_ptr<Trace>> b = open(b_path);
  if (!b.ok()) return Fail(kExitTrouble, b.status());
  absl::StatusOr<bool> different = false;
  Remarks remarks(&selection);
  int exit_code;
  {
    const Pager pager(!text.no_pager);
    StandardOutput out(options.color ? StandardOutput::kColoredText : StandardOutput::kText, pager.fd());
    std::vector<std::string> notes;
    std::optional<uint64_t> top;
    if (all || *top_option) top = all ? 0 : options.top;
    different = times.times()
                    ? times.Write(a_path, b_path, a->get(), b->get(), &selection, options, top, &progress, &out, &notes)
                : numbers.on() ? WriteNumberDiff(a->get(), b->get(), options, number_options, &out)
                : sequence     ? WriteSequenceDiff(a->get(), b->get(), options, sequence_options, &out)
                               : WriteConfigDiff(a->get(), b->get(), options, &out);
    if (different.ok()) {
      remarks.Add(a_path, **a);
      remarks.Add(b_path, **b);
      remarks.Add(notes);
      if (times.times() && !selection.ChoosesCalls()) {
        remarks.AddOpenCalls(a_path, **a);
        remarks.AddOpenCalls(b_path, **b);
      }
      if (const std::string left_out = NumbersLeftOut(a_path, **a, b_path, **b); !numbers.on() && !left_out.empty()) {
        remarks.Add({left_out});
      }
    }
    exit_code = out.Finish(different.ok() ? remarks.Check() : different.status());
  }
  if (exit_code == kExitOk) {
    remarks.Tell(quiet);
  }
  // A reader that has gone away is no failure, but different traces keep their exit code.
  return exit_code == kExitOk && different.ok() && *different ? kExitDifferent : exit_code;
}

}  // namespace

const Command kDiffCommand = {"diff", "Compare two traces: APIs, configs and counts, or call by call", "Read", RunDiff};

}  // namespace torchtrace
