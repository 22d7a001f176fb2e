// `torchtrace attach`.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/reading/reading_options.h"
#include "cmd/run/run_request.h"
#include "serialize/base/log_folder.h"
#include "serialize/base/matching.h"
#include "serialize/base/monotonic_clock.h"
#include "serialize/log/log_trace.h"
#include "serialize/model/levels.h"
#include "serialize/trace/statistics.h"
#include "tracer/attach/attach_task.h"
#include "tracer/attach/attached_process.h"
#include "tracer/attach/process_status.h"
#include "tracer/attach/remote_python.h"
#include "tracer/follow/helper_programs.h"
#include "tracer/follow/not_followed.h"
#include "tracer/launch/find_python.h"
#include "tracer/launch/follow_task.h"
#include "tracer/launch/output_folder.h"
#include "tracer/launch/run_control.h"
#include "tracer/launch/run_ending.h"

namespace torchtrace {
namespace {

constexpr char kAttachFooter[] =
    "PID is a running Python that knows nothing of torchtrace; with --rank a parent of such Pythons.\n"
    "\n"
    "Examples:\n"
    "  torchtrace attach 4711                      until Ctrl-C\n"
    "  torchtrace attach 4711 --duration 10s -o out\n"
    "  torchtrace attach 4700 --rank 0-3 -l 1,2    four ranks of the job that process 4700 started";

struct AttachOptions {
  int pid = 0;
  std::vector<std::string> levels = {"1"};
  std::vector<std::string> libraries;
  std::string output;
  std::string ranks;
  std::string duration;
  uint64_t max_calls = 0;
  bool children = false;
  bool recompile = false;
  bool force = false;
  bool quiet = false;
};

// How often it is looked what the processes do.
constexpr int64_t kTickNs = 10'000'000;
// After which time it is said that a process is waited for.
constexpr int64_t kSilenceNs = 2'000'000'000;
// Calls are counted at most so often, and in a tenth of the time.
constexpr int64_t kCountNs = 50'000'000;
// Programs stop by themselves, should torchtrace be stopped, this long after the time that the user gave.
constexpr int64_t kGraceNs = 5'000'000'000;

volatile sig_atomic_t g_interrupts = 0;

void CountInterrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_interrupts = g_interrupts + 1; };
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before;
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

void Tick() {
  const timespec tick = {0, kTickNs};
  nanosleep(&tick, nullptr);
}

bool IsHelperProcess(pid_t pid) {
  const std::vector<std::string> command = CommandLineOf(pid);
  std::vector<const char*> words;
  for (const std::string& word : command) words.push_back(word.c_str());
  return IsHelper(static_cast<int>(words.size()), words.data());
}

// The script's words, as python gets them: python's own options are left out.
std::vector<std::string> ProgramOf(const std::vector<std::string>& command) {
  size_t at = 1;
  while (at < command.size() && command[at].size() > 1 && command[at][0] == '-') {
    const std::string& word = command[at];
    if (word[1] == 'c' || word[1] == 'm') break;
    at += word == "-X" || word == "-W" ? 2 : 1;
  }
  return {command.begin() + static_cast<ptrdiff_t>(std::min(at, command.size())), command.end()};
}

// The ranks' processes: the first ones below `parent` that have them. Workers of a rank have its variable, too.
absl::StatusOr<std::vector<pid_t>> FindRanks(pid_t parent, const std::string& wanted) {
  const absl::StatusOr<NumberSet> numbers = NumberSet::Parse(wanted);
  if (!numbers.ok()) return numbers.status();
  std::map<uint64_t, pid_t> found;
  for (const pid_t pid : ProcessesBelow(parent)) {
    uint64_t rank = 0;
    if (!absl::SimpleAtoi(VariableOf(pid, "RANK"), &rank) || !numbers->Contains(rank) || IsHelperProcess(pid)) {
      continue;
    }
    found.emplace(rank, pid);
  }
  std::vector<pid_t> pids;
  for (const auto& [first, last] : numbers->ranges()) {
    for (uint64_t rank = first; rank <= last; ++rank) {
      const auto process = found.find(rank);
      if (process == found.end()) {
        return absl::NotFoundError(absl::StrCat("no process below ", parent, " has the variable RANK=", rank));
      }
      pids.push_back(process->second);
    }
  }
  return pids;
}

// Those that were named, and those that come with them.
struct ChosenProcesses {
  std::vector<pid_t> named;
  std::vector<pid_t> children;
};

absl::StatusOr<ChosenProcesses> ChooseProcesses(const AttachOptions& options) {
  if (const absl::Status there = ReadProcessStatus(options.pid).status(); !there.ok()) return there;
  ChosenProcesses chosen;
  chosen.named = {options.pid};
  if (!options.ranks.empty()) {
    absl::StatusOr<std::vector<pid_t>> ranks = FindRanks(options.pid, options.ranks);
    if (!ranks.ok()) return ranks.status();
    chosen.named = *std::move(ranks);
  }
  if (!options.children) return chosen;
  std::set<pid_t> known(chosen.named.begin(), chosen.named.end());
  known.insert(getpid());
  for (const pid_t pid : chosen.named) {
    for (const pid_t below : ProcessesBelow(pid)) {
      if (known.insert(below).second && !IsHelperProcess(below)) chosen.children.push_back(below);
    }
  }
  return chosen;
}

// A Python that can be attached to, and what is needed for it.
struct Target {
  pid_t pid = 0;
  ProcessStatus status;
  RemotePython python;
  std::string runtime;  // its folder
};

absl::StatusOr<Target> Examine(pid_t pid) {
  Target target;
  target.pid = pid;
  absl::StatusOr<ProcessStatus> status = ReadProcessStatus(pid);
  if (!status.ok()) return status.status();
  target.status = *std::move(status);
  if (absl::Status attachable = CheckAttachable(pid, target.status); !attachable.ok()) return attachable;
  absl::StatusOr<RemotePython> python = FindRemotePython(pid);
  if (!python.ok()) return python.status();
  target.python = *std::move(python);
  PythonInfo info;
  info.version = target.python.version;
  info.executable = target.python.program;
  const absl::StatusOr<std::string> runtime =
      FindRuntimeFolder({target.python.program, absl::StrCat("process ", pid)}, info);
  if (!runtime.ok()) return runtime.status();
  std::error_code error;
  target.runtime = std::filesystem::absolute(*runtime, error).lexically_normal().string();
  if (absl::Status seen = CheckSeesFile(pid, target.runtime); !seen.ok()) return seen;
  return target;
}

// The package torchtrace is in a runtime's folder, or has the runtimes in it.
std::string PackageOf(const std::string& runtime) {
  const std::filesystem::path inside = std::filesystem::path(runtime) / "torchtrace";
  std::error_code error;
  return (std::filesystem::is_directory(inside, error) ? inside
                                                       : std::filesystem::path(runtime).parent_path().parent_path())
      .string();
}

// The processes, their trace's folder, and what is left to do when they have ended.
class Attaching {
 public:
  Attaching(const AttachOptions& options, std::vector<Target> targets)
      : options_(options), targets_(std::move(targets)), run_(NewRunId()) {}

  absl::Status Prepare();
  // Removes what Prepare has made.
  void Drop();
  // Returns the verb's exit code.
  int Run();

 private:
  using State = AttachedProcess::State;

  size_t Count(State state) const {
    return std::count_if(processes_.begin(), processes_.end(),
                         [state](const auto& process) { return process->state() == state; });
  }
  void Look();
  void TellWhoIsWaitedFor(State state, const char* what);
  void Record();
  void End();
  uint64_t CountRecorded() const;
  bool IsStopped() const;
  void NoteNotTraced(const AttachedProcess& process, const std::string& why);
  int Finish();

  const AttachOptions& options_;
  const std::vector<Target> targets_;
  const std::string run_;
  std::string shown_, path_;
  std::unique_ptr<OutputFolder> folder_;
  std::unique_ptr<AttachTask> task_;
  std::vector<std::unique_ptr<AttachedProcess>> processes_;
};

absl::Status Attaching::Prepare() {
  const std::string stem = ProgramStem(ProgramOf(CommandLineOf(targets_[0].pid)));
  const absl::StatusOr<std::string> shown = ExpandOutputName(
      options_.output.empty() ? absl::StrCat("torchtrace-", absl::StrReplaceAll(stem, {{"%", "%%"}}), "-%p")
                              : options_.output,
      options_.pid);
  if (!shown.ok()) return shown.status();
  shown_ = *shown;
  std::error_code error;
  path_ = std::filesystem::absolute(shown_, error).lexically_normal().string();
  if (error) return absl::NotFoundError(absl::StrCat("cannot find the output folder ", shown_, ": ", error.message()));
  for (const Target& target : targets_) {
    if (target.status.user == targets_[0].status.user) continue;
    return absl::FailedPreconditionError(absl::StrCat("processes ", targets_[0].pid, " and ", target.pid,
                                                      " belong to different users: attach to them one by one"));
  }
  WriteAsUserOf(targets_[0].status);
  absl::StatusOr<std::unique_ptr<OutputFolder>> claimed = OutputFolder::Claim(path_, {.force = options_.force});
  if (!claimed.ok()) return claimed.status();
  folder_ = *std::move(claimed);
  AttachTask::Content content;
  content.run = run_;
  content.levels = *ParseLevels(options_.levels);
  content.libraries = SplitLists(options_.libraries);
  content.recompile = options_.recompile;
  if (!options_.duration.empty()) content.duration_ns = *ParseNanoseconds(options_.duration) + kGraceNs;
  absl::StatusOr<std::unique_ptr<AttachTask>> task = AttachTask::Create(path_ + "/log", content);
  if (!task.ok()) return task.status();
  task_ = *std::move(task);
  for (const Target& target : targets_) {
    if (absl::Status seen = CheckSeesFile(target.pid, task_->path()); !seen.ok()) return seen;
    processes_.push_back(
        std::make_unique<AttachedProcess>(target.pid, target.python, PackageOf(target.runtime), task_->path()));
  }
  return folder_->Share();
}

void Attaching::Look() {
  for (const auto& process : processes_) process->Look();
}

void Attaching::TellWhoIsWaitedFor(State state, const char* what) {
  for (const auto& process : processes_) {
    if (options_.quiet || process->state() != state) continue;
    Say(absl::StrCat("process ", process->pid(), " ", what, " when its main thread next runs Python code: now ",
                     process->WhatItDoes(), "; Ctrl-C doesn't wait for it"));
  }
}

uint64_t Attaching::CountRecorded() const {
  const absl::StatusOr<std::unique_ptr<Trace>> trace = OpenLogs(path_);
  if (!trace.ok()) return 0;
  const absl::StatusOr<Statistics> counted = CountCalls(trace->get());
  return counted.ok() ? counted->calls : 0;
}

// By `torchtrace ctl`.
bool Attaching::IsStopped() const {
  const absl::StatusOr<RunControl> control = RunControl::Open(path_);
  return control.ok() && control->order() == ControlPage::kStop;
}

// Until the time is over, enough calls were made, the processes have ended, or the user says so.
void Attaching::Record() {
  for (const auto& process : processes_) process->Begin();
  const int64_t duration_ns = options_.duration.empty() ? INT64_MAX : *ParseNanoseconds(options_.duration);
  const int64_t begin = MonotonicNowNs();
  int64_t first = 0, count_at = 0;  // when the first process was traced, when to count calls
  bool silent = true, all_answered = false;
  while (g_interrupts == 0) {
    Look();
    const int64_t now = MonotonicNowNs();
    const size_t asked = Count(State::kBeginning), traced = Count(State::kTracing);
    if (asked == 0 && !std::exchange(all_answered, true)) {
      for (const auto& process : processes_) {
        if (process->state() == State::kFailed) Say(process->error());
      }
      if (traced > 0 && !options_.quiet) {
        Say(absl::StrCat("attached to ",
                         processes_.size() == 1 ? absl::StrCat("process ", processes_[0]->pid())
                                                : absl::StrCat(traced, " of ", processes_.size(), " processes"),
                         "; Ctrl-C ends the trace"));
      }
    }
    if (asked + traced == 0) return;
    if (asked > 0 && now - begin > kSilenceNs && std::exchange(silent, false)) {
      TellWhoIsWaitedFor(State::kBeginning, "is attached to");
    }
    if (first == 0 && traced > 0) {
      first = now;
      if (absl::Status status = folder_->RemoveEarlierTrace(); !status.ok()) Say(std::string(status.message()));
    }
    if (first != 0 && (now - first >= duration_ns || IsStopped())) return;
    if (first != 0 && options_.max_calls != 0 && now >= count_at) {
      if (CountRecorded() >= options_.max_calls) return;
      count_at = MonotonicNowNs() + std::max(kCountNs, 10 * (MonotonicNowNs() - now));
    }
    Tick();
  }
}

// From here on nobody records or opens the trace.
void Attaching::End() {
  task_.reset();
  for (const auto& process : processes_) {
    if (process->state() == State::kTracing) process->End();
  }
  const int64_t begin = MonotonicNowNs();
  const int interrupts = g_interrupts;
  bool silent = true;
  while (g_interrupts == interrupts && Count(State::kEnding) > 0) {
    Look();
    if (MonotonicNowNs() - begin > kSilenceNs && std::exchange(silent, false)) {
      TellWhoIsWaitedFor(State::kEnding, "closes its trace");
    }
    Tick();
  }
  for (const auto& process : processes_) {
    if (process->state() == State::kEnded && !process->error().empty()) Say(process->error());
    if (process->state() == State::kEnding) {
      Say(absl::StrCat("process ", process->pid(),
                       " is still traced: it closes its trace when 256 KiB more are recorded"));
    }
    if (process->state() == State::kBeginning) {
      constexpr char kWhy[] = "its main thread has run no Python code meanwhile";
      NoteNotTraced(*process, kWhy);
      Say(absl::StrCat("process ", process->pid(), " was not traced: ", kWhy));
    }
    if (process->state() == State::kFailed) NoteNotTraced(*process, process->error());
  }
}

// For run.json, beside what can't be followed.
void Attaching::NoteNotTraced(const AttachedProcess& process, const std::string& why) {
  if (Count(State::kEnded) == 0) return;  // there is no trace
  const std::string command = absl::StrCat(absl::StrJoin(CommandLineOf(process.pid()), " "), " (", process.pid(), ")");
  const NotFollowed note(command.c_str(), why.c_str());
  const std::string folder = path_ + "/log/";
  if (!AppendNotFollowed(folder.c_str(), note.line(), note.bytes())) {
    Say(absl::StrCat("cannot write ", folder, kNotFollowedName));
  }
}

int Attaching::Run() {
  CountInterrupts();
  Record();
  End();
  const bool open = Count(State::kEnding) > 0;
  const bool any = Count(State::kEnded) > 0 || open;
  processes_.clear();
  if (any) {
    const int finished = Finish();
    return open ? kExitTrouble : finished;
  }
  Drop();
  return kExitTrouble;
}

void Attaching::Drop() {
  task_.reset();
  processes_.clear();
  if (folder_ != nullptr) folder_->Drop();
}

// Renders the files, here, so that the processes need not wait for that.
int Attaching::Finish() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
  CleanUpOnSignals();
  RecordingOptions recording;
  recording.quiet = options_.quiet;
  RunEnding ending({path_, shown_, std::move(recording)});
  const bool last = folder_->TakeAlone();
  if (!last) folder_->Share().IgnoreError();
  ending.Finish();
  if (!last && folder_->TakeAlone()) ending.RenderAgain();
  return kExitOk;
}

int RunAttach(const std::vector<std::string>& args) {
  AttachOptions options;
  const auto app = MakeApp(kAttachCommand, "[OPTIONS] PID", kAttachFooter);
  app->add_option("PID", options.pid, "The process")->required();
  app->add_option(
         "-l,--levels", options.levels,
         absl::StrCat("What to trace, by number or name: ", DescribeLevels(), ". Several with commas (default: 1)"))
      ->option_text("LEVELS")
      ->allow_extra_args(false)
      ->check(IsList())
      ->check(CompletedLists(Checked([](const std::string& text) { return ParseLevels(text); }), LevelNames));
  app->add_option("--library", options.libraries,
                  "Level 0 traces the public API of this Python library; may be repeated (default: torch)")
      ->option_text("NAME")
      ->allow_extra_args(false)
      ->check(IsList());
  app->add_option("--duration", options.duration, "End the trace after this time: 500ms, 10s, 2m (default: at Ctrl-C)")
      ->option_text("TIME")
      ->check(Checked([](const std::string& text) { return ParseNanoseconds(text, 1); }));
  app->add_option("--max-calls", options.max_calls,
                  "End it soon after N calls were recorded, of all processes together")
      ->option_text("N")
      ->check(IsCount(1));
  app->add_option("--rank", options.ranks,
                  "Attach to the processes below PID that have these ranks (the variable RANK): 0-3, 0,2")
      ->option_text("RANKS")
      ->check(Checked([](const std::string& text) { return NumberSet::Parse(text); }));
  app->add_flag("--children", options.children, "Attach to the Pythons below them, too");
  app->add_flag("--recompile", options.recompile,
                "Trace level 2 though compiled functions will compile once more (see docs/PYTHON.md)");
  app->add_option("-o,--output", options.output,
                  "Folder for the trace; %p is PID, %h the host (default: torchtrace-<script>-%p)")
      ->option_text("DIR")
      ->check(IsFolderName());
  app->add_flag("-f,--force", options.force, "Overwrite the trace that is in DIR");
  AddQuiet(app.get(), &options.quiet);
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  const std::vector<int> levels = *ParseLevels(options.levels);
  if (!options.libraries.empty() && levels.front() != kSetattrLevel) {
    return Fail(kExitTrouble, "--library is for level 0, which isn't traced: add it to --levels");
  }

  const absl::StatusOr<ChosenProcesses> chosen = ChooseProcesses(options);
  if (!chosen.ok()) return Fail(kExitTrouble, chosen.status());
  std::vector<Target> targets;
  for (const pid_t pid : chosen->named) {
    absl::StatusOr<Target> target = Examine(pid);
    if (!target.ok()) return Fail(kExitTrouble, target.status());
    targets.push_back(*std::move(target));
  }
  for (const pid_t pid : chosen->children) {
    // Shells and the like are no Pythons.
    absl::StatusOr<Target> target = Examine(pid);
    if (!target.ok()) {
      if (!absl::IsNotFound(target.status()) && !options.quiet) Say(std::string(target.status().message()));
      continue;
    }
    targets.push_back(*std::move(target));
  }
  Attaching attaching(options, std::move(targets));
  if (absl::Status status = attaching.Prepare(); !status.ok()) {
    attaching.Drop();
    return Fail(kExitTrouble, status);
  }
  return attaching.Run();
}

}  // namespace

const Command kAttachCommand = {"attach", "Record the calls of a Python that runs already", "Record", RunAttach};

}  // namespace torchtrace
