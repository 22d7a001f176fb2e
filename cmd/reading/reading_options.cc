#include "cmd/reading/reading_options.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/cli/terminal.h"
#include "cmd/cli/verb_host.h"
#include "dialects/table/dialects.h"
#include "serialize/apis/api_names.h"
#include "serialize/apis/apis.h"
#include "serialize/base/command_name.h"
#include "serialize/base/text.h"
#include "serialize/import/open_trace.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/trace/run_facts.h"
#include "serialize/trace/trace.h"
#include "serialize/where/selected_trace.h"

namespace torchtrace {
class ReadingProgress::Observer : public ReadingObserver {
 public:
  Observer(std::string what, Progress* progress) : what_(std::move(what)), progress_(progress) {}

  void OnRead(Unit unit, uint64_t done, uint64_t total) override {
    if (VerbHost* const host = VerbHost::Current(); host != nullptr) host->Check();
    progress_->Show(what_, unit == kBytes ? Progress::kBytes : Progress::kCalls, done, total);
  }
  size_t threads() const override { return std::thread::hardware_concurrency(); }

 private:
  const std::string what_;
  Progress* const progress_;
};

ReadingProgress::ReadingProgress(bool quiet, size_t traces, std::string what)
    : progress_(quiet), traces_(traces), what_(std::move(what)) {}

ReadingProgress::~ReadingProgress() = default;

absl::StatusOr<std::unique_ptr<Trace>> ReadingProgress::Open(const std::string& path) {
  if (auto looked_at = looked_at_.extract(path); !looked_at.empty()) return std::move(looked_at.mapped());
  if (path == "-" && std::exchange(standard_input_was_read_, true)) {
    return absl::InvalidArgumentError("standard input (-) was given twice, and can be read only once");
  }
  return OpenTrace(path, NextObserver());
}

absl::Status ReadingProgress::Look(const std::string& path, const std::function<absl::Status(Trace*)>& look) {
  const bool keeps = traces_ == 1 || path == "-";
  absl::StatusOr<std::unique_ptr<Trace>> trace = keeps ? Open(path) : OpenTrace(path);
  if (!trace.ok()) return trace.status();
  const absl::Status looked = look(trace->get());
  if (keeps) looked_at_[path] = *std::move(trace);
  return looked;
}

ReadingObserver* ReadingProgress::NextObserver() {
  const size_t number = observers_.size() + 1;
  std::string what = traces_ > 1 ? absl::StrCat(what_, " trace ", number, " of ", traces_) : what_;
  return observers_.emplace_back(std::make_unique<Observer>(std::move(what), &progress_)).get();
}

Check RenderFormatsCheck() {
  return CompletedLists(Checked([](const std::string& text) { return RenderFormats::Parse(text); }),
                        RenderFormats::Names);
}

std::vector<std::string> GroupPatterns() {
  std::vector<std::string> patterns = ApiGroups::BuiltIn().names();
  for (std::string& name : patterns) name.insert(0, 1, '%');
  return patterns;
}

namespace {

// RenderingOptions and RecordingOptions have members of these names.
template <typename Options>
std::vector<Option*> AddFiles(App* app, Options* options) {
  return {
      app->add_option("--formats", options->formats,
                      absl::StrCat("Files to render (default: all): ", RenderFormats::Choices()))
          ->option_text("LIST")
          ->check(RenderFormatsCheck()),
      app->add_option(
             "--render-limit", options->render_limit,
             absl::StrCat("Beyond N calls, leave out the files that list every call; `torchtrace render` makes "
                          "them later (default: ",
                          kDefaultRenderLimit, ")"))
          ->option_text("N")
          ->check(IsCount()),
      app->add_flag("--merge-output,!--no-merge-output", options->merge_output,
                    "All levels in one set of files (the default), or one set for each level"),
      app->add_flag(
          "--readable", options->readable,
          "Let your umask decide who may read the trace, which holds paths and strings; by default only you may"),
  };
}

}  // namespace

void RenderingOptions::AddTo(App* app) {
  AddFiles(app, this);
  app->add_flag("-q,--quiet", quiet, "Print only errors");
}

void AddRenderingOptions(App* app, RecordingOptions* options, const std::string& group) {
  for (Option* const option : AddFiles(app, options)) option->envname()->group(group);
}

void RenderingOptions::Apply(RenderOptions* options) const {
  options->formats = *RenderFormats::Parse(formats);
  options->render_limit = render_limit;
  options->merge_output = merge_output;
}

const Choices<bool>& TextOrJson() {
  static const Choices<bool> formats("unknown format", {{"text", false}, {"json", true}});
  return formats;
}

void TextOptions::AddTo(App* app) {
  app->add_option("--color", color, "auto, always or never; NO_COLOR is honoured (default: auto)")
      ->option_text("WHEN")
      ->check(OneOf(Whens()));
  app->add_flag("--no-pager", no_pager, "Don't show it in $PAGER (or less) on a terminal");
}

bool TextOptions::UsesColor() const { return UseColor(*Whens().Parse(color)); }

void AddQuiet(App* app, bool* quiet) {
  app->add_flag("-q,--quiet", *quiet, "Print only errors, not what the trace lacks");
}

namespace {

std::string InfoCommand(const char* options, const std::string& path) {
  return absl::StrCat(CommandName(), " info ", options, path == "-" ? path : ShellQuote(path));
}

}  // namespace

void Remarks::AddOpenCalls(const std::string& path, const Trace& trace) {
  uint64_t calls = 0;
  for (const ProcessInfo& process : trace.processes()) calls += process.open_calls;
  if (calls == 0) return;
  Add({absl::StrCat(Counted(calls, "call", "calls"), " of ", path == "-" ? "standard input" : path,
                    " never returned, and had no time: ", InfoCommand("--open ", path), " shows them")});
}

namespace {

// A remark on a program whose child processes did the work, if they were not traced.
std::string CallsElsewhere(uint64_t calls, const Trace& trace) {
  constexpr uint64_t kFew = 10;
  if (calls >= kFew) return "";
  const RunFacts facts = GatherFacts(trace);
  const bool python = std::any_of(facts.started.begin(), facts.started.end(),
                                  [](const auto& program) { return program.second.python; });
  if (!python) return "";
  return absl::StrCat(" has ", calls == 0 ? "no calls" : Counted(calls, "call", "calls"),
                      "; not seen: ", facts.not_seen.back());
}

}  // namespace

void Remarks::AddCounted(const std::string& path, const Trace& trace) {
  const uint64_t counted = CountOnlyCounted(trace);
  if (counted > 0) Add({absl::StrCat(path == "-" ? "standard input" : path, ": ", CountedCalls(counted))});
}

void Remarks::Add(const std::string& path, const Trace& trace) {
  read_ = true;
  leaves_some_ = leaves_some_ || filter_ == nullptr || filter_->LeavesSome(trace);
  bool damaged = false, exact = true;
  uint64_t calls = 0, lost = 0;
  for (const ProcessInfo& process : trace.processes()) {
    damaged = damaged || !process.damage.sentences.empty();
    exact = exact && process.damage.lost_calls_exact;
    calls += process.calls;
    lost += process.damage.lost_calls;
  }
  if (damaged || lost > 0) {
    const std::string damage =
        absl::StrCat(path == "-" ? "standard input" : path, " is damaged: ", CountLostCalls(lost, exact), " lost");
    const std::string more = absl::StrCat(" (", InfoCommand("", path), " shows more)");
    if (calls > 0) {
      Add({damage + more});
    } else if (nothing_left_.ok()) {
      nothing_left_ = absl::DataLossError(absl::StrCat(damage, ", and none is left", more));
    }
  }
  if (const std::string elsewhere = CallsElsewhere(calls, trace); !elsewhere.empty()) {
    Add({absl::StrCat(path == "-" ? "standard input" : path, elsewhere)});
  }
  AddCounted(path, trace);
  Add(TraceNotes(trace));
}

void Remarks::Add(const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) {
    if (std::find(sentences_.begin(), sentences_.end(), sentence) == sentences_.end()) sentences_.push_back(sentence);
  }
}

void Remarks::Tell(bool quiet) const {
  if (quiet) return;
  for (const std::string& sentence : sentences_) Say(sentence);
  // If no trace was read to its end (`| head`), this isn't known.
  if (filter_ != nullptr && read_ && !leaves_some_) Say(filter_->NoCallMatches());
}

void CallFilterOptions::AddTo(App* app) {
  app->add_option("--include", include,
                  "Only APIs that match GLOB ('*', '?', '[a-z]', or a group: '%nn', '%linalg', ...); may be repeated")
      ->option_text("GLOB")
      ->allow_extra_args(false)
      ->check(CompletedLists(IsList(), GroupPatterns))
      ->group("Filtering");
  app->add_option("--exclude", exclude, "Leave out APIs that match GLOB; may be repeated")
      ->option_text("GLOB")
      ->allow_extra_args(false)
      ->check(CompletedLists(IsList(), GroupPatterns))
      ->group("Filtering");
  app->add_option("--groups", groups, "More groups for --include and --exclude (see docs/FILTER.md)")
      ->option_text("FILE")
      ->group("Filtering");
  app->add_option("-l,--level,--levels", levels, "Only calls of these levels, by number or name")
      ->option_text("LEVELS")
      ->allow_extra_args(false)
      ->check(CompletedLists(Checked([](const std::string& text) { return ParseLevels(text); }), LevelNames))
      ->group("Filtering");
  app->set_last_check([this] {
    if (include.empty() && exclude.empty() && groups.empty()) return absl::OkStatus();
    const ApiNames& known = KnownApiNames();
    absl::StatusOr<NameFilter> names = ExpandNames({SplitLists(include), SplitLists(exclude)}, groups, known);
    if (!names.ok()) return names.status();
    globs_ = std::move(names->globs);
    std::erase_if(names->written, [&known](const WrittenName& name) { return known.Has(name); });
    unknown_ = std::move(names->written);
    return absl::OkStatus();
  });
}

absl::Status CallFilterOptions::CheckNames(const std::vector<std::string>& paths, ReadingProgress* progress) const {
  return CheckAll({}, paths, progress);
}

absl::Status CallFilterOptions::CheckAll(const std::vector<std::string>& more, const std::vector<std::string>& paths,
                                         ReadingProgress* progress) const {
  std::vector<WrittenName> unknown = unknown_;
  for (const std::string& pattern : more) {
    if (!KnownApiNames().Has(pattern)) unknown.push_back({pattern, "", {}});
  }
  if (unknown.empty()) return absl::OkStatus();
  std::string found;
  for (const std::string& path : paths) {
    const absl::Status s = progress->Look(path, [&found](Trace* trace) { return AppendNames(trace, &found); });
    if (!s.ok()) return s;
  }
  std::vector<std::string_view> tables = ApiNameTables();
  tables.push_back(found);
  const ApiNames known(tables);
  std::erase_if(unknown, [&known](const WrittenName& name) { return known.Knows(name); });
  return UnknownNames(unknown, known);
}

bool CallFilterOptions::LeavesSome(const Trace& trace) const {
  const std::vector<int> wanted = Levels();
  if (globs_.AcceptsAll() && wanted.empty()) return true;
  GlobMemo names(globs_);
  bool passes = trace.config_count() == 0;
  for (size_t id = 0; !passes && id < trace.config_count(); ++id) {
    const ConfigHead head = ReadConfigHead(trace.identity(static_cast<ConfigId>(id)));
    const bool of_level = wanted.empty() || std::find(wanted.begin(), wanted.end(), head.level) != wanted.end();
    passes = of_level && names.Accepts(head.api);
  }
  return passes;
}

std::string CallFilterOptions::NoCallMatches() const {
  std::string text = "no call matches";
  const auto add = [&text](const char* option, const std::vector<std::string>& values) {
    for (const std::string& value : values) absl::StrAppend(&text, " ", option, " ", ShellQuote(value));
  };
  add("--include", include);
  add("--exclude", exclude);
  add("--level", levels);
  return text;
}

std::vector<int> CallFilterOptions::Levels() const {
  const absl::StatusOr<std::vector<int>> parsed = ParseLevels(levels);
  return parsed.ok() ? *parsed : std::vector<int>();
}

void CallSelectionOptions::AddTo(App* app, bool with_numbers) {
  CallFilterOptions::AddTo(app);
  if (with_numbers) {
    app->add_option("--calls", numbers, "Only calls with these numbers: A-B, A-, -B, A, @FILE; several with commas")
        ->option_text("NUMBERS")
        ->check(Checked([](const std::string& text) { return NumberSet::Parse(text); }))
        ->group("Filtering");
  }
  app->add_option("--thread", threads,
                  "Only calls of these threads: numbers, or GLOBs over their names; may be repeated")
      ->option_text("THREADS")
      ->allow_extra_args(false)
      ->check(IsList())
      ->group("Filtering");
  app->add_option("--rank", ranks, "Only calls of processes with these ranks, written as for --calls")
      ->option_text("RANKS")
      ->check(Checked([](const std::string& text) { return NumberSet::Parse(text); }))
      ->group("Filtering");
  app->add_option("--skip-steps", skip_steps,
                  "Leave out the first N steps of each process, and all that is before them (see docs/STATS.md)")
      ->option_text("N")
      ->check(IsCount())
      ->group("Filtering");
  app->add_option("--where", where, "Only calls for which CONDITION is true, such as 'dtype = float16 and ndim >= 3'")
      ->option_text("CONDITION")
      ->check(Checked([](const std::string& text) { return Where::Parse(text); }))
      ->group("Filtering");
}

void CallSelectionOptions::Apply(CallSelection* selection) {
  selection->filter = Globs();
  selection->levels = Levels();
  if (!numbers.empty()) selection->calls = *NumberSet::Parse(numbers);
  if (!ranks.empty()) selection->ranks = *NumberSet::Parse(ranks);
  selection->threads = SplitLists(threads);
  // A thread's name may contain commas.
  for (const std::string& each : threads) {
    if (each.find(',') != std::string::npos) selection->threads.push_back(each);
  }
  selection->skip_steps = skip_steps;
  if (!where.empty()) selection->where = Condition();
  selection->found = &found_;
}

absl::Status CallSelectionOptions::CheckNames(const std::vector<std::string>& paths, ReadingProgress* progress) const {
  if (where.empty()) return CheckAll({}, paths, progress);
  const Where condition = Condition();
  if (absl::Status s = CheckAll(condition.Apis(), paths, progress); !s.ok()) return s;
  return condition.CheckValues([&](const std::function<absl::Status(Trace*)>& look) {
    absl::Status status;
    for (const std::string& path : paths) status.Update(progress->Look(path, look));
    return status;
  });
}

bool CallSelectionOptions::LeavesSome(const Trace& trace) const {
  return ChoosesCalls() ? found_ || trace.config_count() == 0 : CallFilterOptions::LeavesSome(trace);
}

absl::StatusOr<std::unique_ptr<Trace>> CallSelectionOptions::Open(const std::string& path, ReadingProgress* progress) {
  absl::StatusOr<std::unique_ptr<Trace>> trace = progress->Open(path);
  if (!trace.ok() || !ChoosesCalls()) return trace;
  CallSelection selection;
  Apply(&selection);
  return std::make_unique<SelectedTrace>(*std::move(trace), std::move(selection));
}

std::string CallSelectionOptions::NoCallMatches() const {
  std::string more;
  const auto add = [&more](const char* option, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&more, " ", option, " ", ShellQuote(value));
  };
  add("--calls", numbers);
  for (const std::string& thread : threads) add("--thread", thread);
  add("--rank", ranks);
  if (skip_steps > 0) absl::StrAppend(&more, " --skip-steps ", skip_steps);
  add("--where", where);
  return CallFilterOptions::NoCallMatches() + more;
}

Where CallSelectionOptions::Condition() const {
  return *Where::Parse(where, [](const std::string& pattern) { return KnownApiNames().Resolve(pattern); });
}

}  // namespace torchtrace
