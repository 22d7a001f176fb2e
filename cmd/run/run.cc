// `torchtrace run`: finds the Python, continues in its program if necessary, loads the runtime and passes the program
// to it.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cmd/cli/installation.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/reading/reading_options.h"
#include "cmd/run/launched_job.h"
#include "cmd/run/run_in_python.h"
#include "cmd/run/run_request.h"
#include "cmd/run/self_check.h"
#include "dialects/scan/scan.h"
#include "dialects/table/dialects.h"
#include "serialize/base/command_name.h"
#include "serialize/base/matching.h"
#include "serialize/base/text.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/levels.h"
#include "tracer/launch/find_python.h"
#include "tracer/launch/follow_task.h"
#include "tracer/launch/output_folder.h"
#include "tracer/launch/run_metadata.h"
#include "tracer/record/recording_options.h"

namespace torchtrace {
namespace {

constexpr char kUsage[] = "[OPTIONS] [--] (SCRIPT | -m MODULE | -c CODE) [ARGS...]";

constexpr char kFooter[] =
    "SCRIPT may be a file, a folder or zip file with a __main__.py, or - for standard input.\n"
    "What follows SCRIPT, MODULE or CODE is the program's. The exit code is the program's too;\n"
    "125 means that torchtrace failed before the program started.\n"
    "\n"
    "Examples:\n"
    "  torchtrace run train.py --lr 0.1\n"
    "  torchtrace run -l 1,2 -o out train.py\n"
    "  torchtrace run -l dispatch -o 'out-%r' -m mypackage.train\n"
    "  torchtrace run --include 'torch.nn.*' -c 'import torch; torch.nn.Linear(2, 3)'";

struct RunOptions {
  RecordingOptions recording;  // lists as typed
  // As typed.
  std::vector<std::string> levels;
  std::string stacks;
  std::string int_ranges = "first";
  std::string numbers;
  std::string duration, sample;
  std::string output;
  std::string python;
  std::vector<std::string> python_args;
  bool no_follow = false;
  std::vector<std::string> follow_only;
  int verbose = 0;
  bool no_self_test = false;
  // Given on the command line, not by a variable.
  bool frames_typed = false, stack_format_typed = false;
};

std::vector<std::string> NamesOfWhichCalls() { return {"all", "first"}; }

// Also accepts what variables use for yes and no.
const Choices<WhichNumbers>& WhichNumbersChoices() {
  static const auto* const choices = new Choices<WhichNumbers>(
      "--numbers must be all or results, not", {{"all", WhichNumbers::kAll}, {"results", WhichNumbers::kResults}});
  return *choices;
}

absl::StatusOr<WhichCalls> ParseWhichCalls(const std::string& text) {
  if (text == "all" || text == "1" || text == "true" || text == "yes" || text == "on") return WhichCalls::kAll;
  if (text == "first") return WhichCalls::kFirst;
  if (text.empty() || text == "0" || text == "false" || text == "no" || text == "off") return WhichCalls::kNone;
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not all or first"));
}

const Choices<std::string>& FrameKinds() {
  static const Choices<std::string> kinds("unknown kind of frames",
                                          {{"modules", "modules"}, {"python", "python"}, {"all", "all"}});
  return kinds;
}

absl::StatusOr<double> ParseSample(const std::string& text) {
  double part;
  if (absl::SimpleAtod(text, &part) && part > 0 && part <= 1) return part;
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a number above 0, up to 1"));
}

// An option of `run`. A variable sets it, too, unless `variable` is false.
struct OptionRow {
  const char* group;
  const char* names;
  std::variant<bool*, int*, uint64_t*, std::string*, std::vector<std::string>*> value;
  const char* placeholder;  // of its value; "": it has none
  std::string text;
  Check check = {};
  bool variable = true;
};

void AddOption(App* app, const OptionRow& row) {
  const std::string names = row.names;
  Option* const option = std::visit(
      [&](auto* value) {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
          return app->add_option(names, *value, row.text)->allow_extra_args(false)->check(IsList());
        } else if constexpr (std::is_same_v<Value, uint64_t>) {
          return app->add_option(names, *value, row.text);
        } else if constexpr (std::is_same_v<Value, std::string>) {
          // "{all}": its value may be left out.
          return names.find('{') == std::string::npos ? app->add_option(names, *value, row.text)
                                                      : app->add_flag(names, *value, row.text);
        } else {
          return app->add_flag(names, *value, row.text);
        }
      },
      row.value);
  if (*row.placeholder != '\0') option->option_text(row.placeholder);
  if (row.check.run != nullptr || row.check.words != nullptr) option->check(row.check);
  if (row.variable) option->envname();
  option->group(row.group);
}

absl::StatusOr<std::string> CheckedStepOn(const std::string& text) {
  if (absl::Status status = CheckStepOn(text); !status.ok()) return status;
  return text;
}

absl::StatusOr<std::string> CheckedSteps(const std::string& text) {
  if (text.empty()) return absl::InvalidArgumentError("\"\" is not a list of steps, 7 or 1,10-12");
  if (absl::Status status = CheckSteps(text); !status.ok()) return status;
  return text;
}

std::vector<std::string> StepOnNames() { return {kStepOnAuto, kStepOnOptimizer, kStepOnForward}; }

std::unique_ptr<App> MakeRunApp(RunOptions* options) {
  constexpr char kCapture[] = "Capture", kLevel0[] = "Level 0", kLevel3[] = "Level 3", kOutput[] = "Output",
                 kLaunching[] = "Launching", kGeneral[] = "General";
  const Check which_calls =
      Completed(Checked([](const std::string& text) { return ParseWhichCalls(text); }), NamesOfWhichCalls);
  RecordingOptions& recording = options->recording;
  const OptionRow before_rendering[] = {
      {kCapture, "-l,--levels", &options->levels, "LEVELS",
       absl::StrCat("What to trace, by number or name: ", DescribeLevels(),
                    ". Several with commas (default: 1; 0 where the dialect has no other)"),
       CompletedLists(Checked([](const std::string& text) { return ParseLevels(text); }), LevelNames)},
      {kCapture, "--include", &recording.include, "GLOB",
       "Record only APIs that match GLOB ('*', '?', '[a-z]', or a group: '%nn', '%linalg', ...); may be repeated",
       CompletedLists(Check(), GroupPatterns)},
      {kCapture, "--exclude", &recording.exclude, "GLOB", "Don't record APIs that match GLOB; may be repeated",
       CompletedLists(Check(), GroupPatterns)},
      {kCapture, "--groups", &recording.groups, "FILE", "More groups for --include and --exclude (see docs/FILTER.md)"},
      {kCapture, "--include-getters", &recording.include_getters, "",
       "Record property reads as well (torch.Tensor.shape.__get__); otherwise they are only counted"},
      {kCapture, "--untested-torch", &recording.untested_torch, "",
       "Also trace a torch that is newer than what this version of torchtrace was tested with"},
      {kLevel0, "--api-list", &recording.api_list, "FILE",
       "What level 0 traces: a list of names, such as `torchtrace apis scan` writes, or all: everything that a scan "
       "finds in torch, or in each --library (default: the public API of the dialect's framework)"},
      {kLevel0, "--library", &recording.libraries, "NAME",
       "Level 0 traces the public API of this Python library: numpy, torch, mypackage.ops, or __main__, the program "
       "itself; may be repeated (default: the dialect's framework, where no --api-list is given)"},
      {kLevel0, "--disable-torch-api-list", &recording.disable_torch_api_list, "", "The same as --api-list all"},
      {kLevel0, "--outermost", &recording.outermost, "",
       "At level 0, leave out calls that other calls of level 0 caused"},
      {kLevel3, "--frames", &recording.frames, "WHAT",
       "What level 3 traces: modules, the calls of nn.Modules; python, functions written in Python too; all, those "
       "written in C too (default: python)",
       OneOf(FrameKinds())},
      {kLevel3, "--frame-include", &recording.frame_include, "GLOB",
       "At level 3, record only functions of files that match GLOB; may be repeated"},
      {kLevel3, "--frame-exclude", &recording.frame_exclude, "GLOB",
       "At level 3, don't record functions of files that match GLOB; may be repeated"},
      {kLevel3, "--frame-depth", &recording.frame_depth, "N",
       "At level 3, record functions nested at most N deep (default: 0, any depth)", IsCount()},
      {kCapture, "--start-paused", &recording.start_paused, "",
       "Record nothing until the program calls torchtrace.resume() or enters torchtrace.trace() (see docs/PYTHON.md)"},
      {kCapture, "--skip", &recording.skip, "N", "Leave out the first N calls of each process", IsCount()},
      {kCapture, "--duration", &options->duration, "TIME",
       "Record no calls later than TIME (10s, 1m30s, 500ms) after a process's first",
       Checked([](const std::string& text) { return ParseNanoseconds(text, 1); })},
      {kCapture, "--first", &recording.first, "N", "Record the first N calls of each config on a thread", IsCount(1)},
      {kCapture, "--sample", &options->sample, "P",
       "Record this part of the calls (0.01), chosen by chance, the same ones in each run",
       Checked([](const std::string& text) { return ParseSample(text); })},
      {kCapture, "--max-calls", &recording.max_calls, "N", "Record at most N calls of each process", IsCount(1)},
      {kCapture, "--step-on", &recording.step_on, "WHAT",
       "What ends a step: optimizer, forward (an outermost call of a module), or an API's name (default: auto, the "
       "optimizer that steps first; where none does, forward) (see docs/STATS.md)",
       Completed(Checked([](const std::string& text) { return CheckedStepOn(text); }), StepOnNames)},
      {kCapture, "--steps", &recording.steps, "STEPS", "Record only these steps of each process: 10-12, 7, 10-, 1,4-6",
       Checked([](const std::string& text) { return CheckedSteps(text); })},
      {kCapture, "--max-steps", &recording.max_steps, "N",
       "Record until N steps of a process have ended (of --steps, if given); the program goes on", IsCount(1)},
      {kCapture, "--max-size", &recording.max_size, "BYTES",
       "Once the logs of all processes together take BYTES (500MB), count calls instead of listing them: configs and "
       "counts stay exact (default: 0, no limit)",
       IsSize()},
      {kCapture, "--outputs", &recording.outputs, "", "Record what calls return, too (see docs/VALUES.md)"},
      {kCapture, "--ids", &recording.ids, "",
       "Record which tensor and storage each tensor is: how data flows between calls (see docs/VALUES.md)"},
      {kCapture, "--int-ranges{all},!--no-int-ranges", &options->int_ranges, "[=all|first]",
       "Record the smallest and largest element of integer tensors in CPU memory of up to 4,096 elements, and all "
       "elements of those of up to 32, at every call; with =first (the default), at the first 3 calls of each config "
       "on a thread",
       which_calls},
      {kCapture, "--values", &recording.values, "BYTES",
       "Record the contents of tensors in CPU memory of up to BYTES (64KB, 1MB; default: 0, none)", IsSize()},
      {kCapture, "--numbers{all}", &options->numbers, "[=all|results]",
       "Record of every tensor that calls take, return or write how many elements are NaN, infinite and zero, least, "
       "most, mean and norm of the others, and a fingerprint; with =results not of arguments; includes --outputs and "
       "--ids (see docs/VALUES.md)",
       OneOf(WhichNumbersChoices())},
      {kCapture, "--memory", &recording.memory, "",
       "Record the memory that PyTorch allocates and frees (see docs/MEMORY.md)"},
      {kCapture, "--stop-on-nan", &recording.stop_on_nan, "",
       "Raise FloatingPointError at an operator that returns or writes a NaN though its arguments have none, on CUDA "
       "later; level 2; includes --numbers"},
      {kCapture, "--device-times", &recording.device_times, "",
       "Record when NVIDIA GPUs ran the kernels, copies and memsets that calls launched (see docs/GPU.md)"},
      {kCapture, "--stacks{all}", &options->stacks, "[=all|first]",
       "Record the Python stack of every call, or with --stacks=first of the first 3 calls of each config on a thread "
       "(see docs/STACKS.md)",
       which_calls},
      {kCapture, "--stack-format", &recording.stack_format, "FORMAT",
       "How api_stacks.yaml shows them: short (file:line), full (as a traceback), api (names) (default: short)",
       OneOf(StackFormats())},
      {kCapture, "--dialect", &recording.dialect, "NAME",
       absl::StrCat("The framework to trace: ", DescribeDialects(),
                    ", or module:Class in Python (see docs/EXTENDING.md; default: ", recording.dialect, ")"),
       Completed(Check(), DialectNames)},
      {kOutput, "-o,--output", &options->output, "DIR",
       "Folder for the trace; %p is the process id, %h the host, %r the rank (default: torchtrace-<script>-%p)",
       IsFolderName()},
      {kOutput, "-f,--force", &recording.force, "", "Overwrite the trace that is in DIR"},
  };
  const OptionRow after_rendering[] = {
      {kLaunching, "--python", &options->python, "PYTHON",
       "The Python to run: a file, a name on PATH or an environment's folder (default: that of torchtrace's own "
       "environment, the active one, ./.venv, or python3 on PATH) [env: TORCHTRACE_PYTHON]",
       /*check=*/{}, /*variable=*/false},
      {kLaunching, "--no-self-test", &options->no_self_test, "",
       "Don't test the levels at the first use of a Python and a torch (see docs/RUN.md)"},
      {kLaunching, "--python-arg", &options->python_args, "ARG",
       "An option for Python itself, such as --python-arg=-O or --python-arg=-Xdev; may be repeated",
       /*check=*/{}, /*variable=*/false},
      {kLaunching, "--no-follow", &options->no_follow, "", "Don't trace the Python programs that the program starts"},
      {kLaunching, "--follow-only", &options->follow_only, "GLOB",
       "Of those, trace only the ones whose command line matches GLOB; may be repeated"},
      {kGeneral, "-q,--quiet", &recording.quiet, "", "Print nothing about tracing"},
      {kGeneral, "-v,--verbose", &options->verbose, "", "Print what is done; may be repeated"},
  };
  auto app = MakeApp(kRunCommand, kUsage, kFooter);
  for (const OptionRow& row : before_rendering) AddOption(app.get(), row);
  AddRenderingOptions(app.get(), &recording, kOutput);
  for (const OptionRow& row : after_rendering) AddOption(app.get(), row);
  app->help_option()->group(kGeneral);
  return app;
}

// Warns of environment variables that match no option: a misspelled one would go unnoticed. `quiet`: only of those that
// look misspelled, since the recording isn't what the user asked for; others may belong to another program.
void TellUnknownVariables(const App& app, bool quiet) {
  constexpr char kPrefix[] = "TORCHTRACE_";
  // Variables of torchtrace itself, and of the tools in its repository.
  std::vector<std::string> known = app.Variables();
  known.insert(known.end(), {"TORCHTRACE_PYTHON", "TORCHTRACE_RUNTIME_DIR", "TORCHTRACE_PRELOADED"});
  for (char** variable = environ; *variable != nullptr; ++variable) {
    std::string name(*variable);
    name.resize(std::min(name.find('='), name.size()));
    if (!name.starts_with(kPrefix) || std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string meant = DidYouMean(name, known);
    if (quiet && meant.empty()) continue;
    Say(absl::StrCat("unknown variable ", name, meant));
  }
}

// Accepts only options of python itself: whatever ends them names another program.
absl::Status CheckPythonArgs(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    bool option = arg.size() > 1 && arg[0] == '-' && arg != "--";
    bool value_follows = arg == "--check-hash-based-pycs";
    // Letters can be combined: -Bm names a module.
    for (size_t at = 1; option && arg[1] != '-' && at < arg.size(); ++at) {
      if (arg[at] == 'm' || arg[at] == 'c') option = false;
      if (arg[at] != 'X' && arg[at] != 'W') continue;
      value_follows = at + 1 == arg.size();
      break;
    }
    if (!option) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--python-arg '", arg, "' is not an option of Python (the program comes after torchtrace's options)"));
    }
    if (value_follows && ++i == args.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--python-arg ", arg, " needs its value, as another --python-arg"));
    }
  }
  return absl::OkStatus();
}

// --api-list: all APIs that a scan finds.
constexpr char kEveryApi[] = "all";

// The given option that applies only to level 0, or null.
const char* LevelZeroOption(const RecordingOptions& options) {
  if (options.outermost) return "--outermost";
  if (!options.api_list.empty()) return "--api-list";
  if (!options.libraries.empty()) return "--library";
  return options.disable_torch_api_list ? "--disable-torch-api-list" : nullptr;
}

// The given option that applies only to level 3's functions, or null.
const char* FrameOption(const RecordingOptions& options) {
  if (!options.frame_include.empty()) return "--frame-include";
  if (!options.frame_exclude.empty()) return "--frame-exclude";
  return options.frame_depth != 0 ? "--frame-depth" : nullptr;
}

// The folder in which Python looks for modules first.
std::string ScriptFolder(const std::vector<std::string>& program) {
  if (program[0].empty() || program[0][0] == '-') return "";
  std::error_code error;
  const std::filesystem::path script = std::filesystem::absolute(program[0], error);
  return (std::filesystem::is_directory(script, error) ? script : script.parent_path()).string();
}

// Whether torch itself is traced, and not other libraries alone.
bool TracesTorch(const RecordingOptions& options) {
  if (options.dialect != "torch") return false;
  return options.libraries.empty() || options.levels != std::vector<int>{kSetattrLevel} ||
         std::any_of(options.libraries.begin(), options.libraries.end(),
                     [](const std::string& library) { return library.rfind("torch", 0) == 0; });
}

// Removes the levels that failed, and adds a sentence for each. An error if one could corrupt the program, or if none
// is left.
absl::Status SwitchOffFailed(const SelfTestResult& failed, RecordingOptions* recording,
                             std::vector<std::string>* sentences) {
  std::vector<int> left;
  for (const int level : recording->levels) {
    const auto found = failed.find(level);
    if (found == failed.end()) {
      left.push_back(level);
      continue;
    }
    if (found->second.died) {
      return absl::FailedPreconditionError(absl::StrCat(
          "level ", level, " kills programs with this Python and torch (its self-test: ", found->second.what,
          "); leave it out, with --levels"));
    }
    sentences->push_back(absl::StrCat("any call of level ", level,
                                      ": it is switched off, since its self-test failed with this Python and torch (",
                                      found->second.what, ")"));
  }
  if (left.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("nothing is left to trace: ", absl::StrJoin(*sentences, "; "),
                                                      ". --no-self-test traces it anyway"));
  }
  recording->levels = std::move(left);
  return absl::OkStatus();
}

int RunProgram(const RunOptions& options, const std::vector<std::string>& program,
               const std::vector<std::string>& command) {
  RecordingOptions recording = options.recording;
  if (recording.api_list == kEveryApi) {
    recording.api_list.clear();
    recording.disable_torch_api_list = true;
  }
  // A dialect written in Python defines levels of its own, which are read when the program starts.
  const bool extension = recording.dialect.find(':') != std::string::npos;
  if (absl::Status status = CheckDialectName(recording.dialect); !status.ok()) return Fail(kExitNotStarted, status);
  const DialectInfo& dialect = DialectInfoOr(recording.dialect);
  if (!options.levels.empty()) {
    absl::StatusOr<std::vector<int>> levels = ParseLevels(options.levels);
    if (!levels.ok()) return Fail(kExitNotStarted, levels.status());
    recording.levels = *std::move(levels);
  } else if (!extension) {
    recording.levels = dialect.default_levels;
  }
  if (absl::Status status = CheckPythonArgs(options.python_args); !status.ok()) return Fail(kExitNotStarted, status);
  bool has_level_zero = !extension && recording.levels.front() == kSetattrLevel;
  if (absl::Status status = CheckRecordingOptions(recording); !status.ok()) return Fail(kExitNotStarted, status);
  const char* const level_zero_option = LevelZeroOption(recording);
  if (!has_level_zero && level_zero_option != nullptr) {
    return Fail(kExitNotStarted,
                absl::StrCat(level_zero_option, extension ? " is not for dialects that are written in Python"
                                                          : " is for level 0, which isn't traced: add it to --levels"));
  }
  if (const char* const option = FrameOption(recording); option != nullptr && !recording.traces_python_frames()) {
    return Fail(kExitNotStarted,
                absl::StrCat(option, " is for level 3's functions, which aren't traced: ",
                             recording.frames == "modules" ? "leave --frames=modules out" : "add 3 to --levels"));
  }
  const auto& levels = recording.levels;
  if (options.frames_typed && !extension && std::find(levels.begin(), levels.end(), kFrameLevel) == levels.end()) {
    return Fail(kExitNotStarted, "--frames is for level 3, which isn't traced: add it to --levels");
  }
  if (options.stack_format_typed && *ParseWhichCalls(options.stacks) == WhichCalls::kNone) {
    return Fail(kExitNotStarted, "--stack-format is for stacks, which aren't recorded: give --stacks, too");
  }
  recording.include = SplitLists(recording.include);
  recording.exclude = SplitLists(recording.exclude);
  recording.libraries = SplitLists(recording.libraries);
  recording.frame_include = SplitLists(recording.frame_include);
  recording.frame_exclude = SplitLists(recording.frame_exclude);
  if (!options.duration.empty()) recording.duration_ns = static_cast<uint64_t>(*ParseNanoseconds(options.duration));
  if (!options.sample.empty()) recording.sample = *ParseSample(options.sample);
  recording.stacks = *ParseWhichCalls(options.stacks);
  recording.int_ranges = *ParseWhichCalls(options.int_ranges);
  if (!options.numbers.empty()) recording.numbers = *WhichNumbersChoices().Parse(options.numbers);
  ResolveImplied(&recording);
  if (absl::Status status = CheckTracedList(recording); !status.ok()) return Fail(kExitNotStarted, status);
  const absl::StatusOr<std::string> shown_folder = ExpandOutputName(
      options.output.empty()
          ? absl::StrCat("torchtrace-", absl::StrReplaceAll(ProgramStem(program), {{"%", "%%"}}), "-%p")
          : options.output);
  if (!shown_folder.ok()) return Fail(kExitNotStarted, shown_folder.status());
  std::error_code error_of_folder;
  const std::string folder = std::filesystem::absolute(*shown_folder, error_of_folder).string();
  if (error_of_folder) {
    return Fail(kExitNotStarted,
                absl::StrCat("cannot find the output folder ", *shown_folder, ": ", error_of_folder.message()));
  }

  const absl::StatusOr<FoundPython> found = FindPython(options.python, EnvironmentOfWheel());
  if (!found.ok()) return Fail(kExitNotStarted, found.status());
  const std::filesystem::path cache = CacheFolder();
  const absl::StatusOr<PythonInfo> python = AskPython(*found, cache.empty() ? "" : (cache / "python").string());
  if (!python.ok()) return Fail(kExitNotStarted, python.status());
  const std::vector<std::string> package_folders = PackageFolders(*python, options.python_args);
  const std::string package_version = InstalledVersion(dialect, package_folders);
  const absl::StatusOr<std::string> runtime_folder = FindRuntimeFolder(*found, *python);
  if (!runtime_folder.ok()) return Fail(kExitNotStarted, runtime_folder.status());
  if (HasItsOwnProgram(*python)) {
    const absl::Status status = ContinueInProgramOf(*python, command);
    // Continue with its libpython instead.
    if (python->libpython.empty()) return Fail(kExitNotStarted, status);
  }
  if (options.verbose > 0) {
    Say(absl::StrCat("python: ", python->executable, " ", python->version, " (named by ", found->source, ")"));
    Say(absl::StrCat("runtime: ", *runtime_folder));
  }
  const absl::StatusOr<RuntimeLibrary> runtime = LoadRuntime(*runtime_folder, *python);
  if (!runtime.ok()) return Fail(kExitNotStarted, runtime.status());

  RunMetadata metadata;
  if (!options.no_self_test && TracesTorch(recording) && !package_version.empty()) {
    SelfTest test;
    test.python = python->executable;
    test.python_version = python->version;
    test.torch_version = package_version;
    test.runtime_folder = *runtime_folder;
    test.package_folders = package_folders;
    test.untested_torch = recording.untested_torch;
    if (!recording.quiet) test.tell = Say;
    if (const std::optional<SelfTestResult> failed = TestLevels(test); failed.has_value()) {
      metadata.switched_off.emplace();
      if (absl::Status status = SwitchOffFailed(*failed, &recording, &*metadata.switched_off); !status.ok()) {
        return Fail(kExitNotStarted, status);
      }
    }
    has_level_zero = recording.levels.front() == kSetattrLevel;
  }
  ScannedPython scanned;
  scanned.dialect_version = package_version;
  scanned.python = python->executable;
  scanned.package_folders = package_folders;
  scanned.folder = ScriptFolder(program);
  if (!recording.quiet) scanned.tell = Say;
  if (has_level_zero) {
    absl::StatusOr<std::string> list = FindTracedList(scanned, &recording);
    if (!list.ok()) return Fail(kExitNotStarted, list.status());
    metadata.api_list = *std::move(list);
  }
  const absl::StatusOr<GlobFilter> globs = FindRecordedNames(scanned, recording);
  if (!globs.ok()) return Fail(kExitNotStarted, globs.status());
  const bool follows = !options.no_follow && !extension;
  const std::string job_run = follows ? RunIdOfJob() : "";
  if (follows) metadata.run = job_run.empty() ? NewRunId() : job_run;
  metadata.follow_only = SplitLists(options.follow_only);
  metadata.command = command;
  metadata.program = program;
  metadata.python_executable = python->executable;
  metadata.python_version = python->version;
  metadata.package_version = extension ? "" : package_version;
  metadata.variables = dialect.variables;

  RunRequest::Content content;
  content.argv = {python->argv0};
  content.argv.insert(content.argv.end(), options.python_args.begin(), options.python_args.end());
  content.argv.insert(content.argv.end(), program.begin(), program.end());
  content.python_version = python->version;
  content.package_version = package_version;
  content.metadata_json = FormatRunMetadata(metadata, recording);
  const std::string died =
      absl::StrCat("torchtrace: the program died of a signal; its trace is in ", PlainLine(*shown_folder), "\n");
  content.signal_message = absl::StrCat(died, "torchtrace: for the files, type: ", CommandName(), " render ",
                                        PlainLine(ShellQuote(*shown_folder)), "\n");
  content.late_signal_message = died;
  content.ending.folder = folder;
  content.ending.shown_name = *shown_folder;
  if (follows) {
    content.of_job = !job_run.empty();
    FollowTask& follow = content.follow.emplace();
    follow.run = metadata.run;
    follow.runtimes = RuntimeLibraries(*runtime_folder, *python);
    follow.only = metadata.follow_only;
    for (const char* const prefix : dialect.variables) follow.variables.emplace_back(prefix);
    follow.metadata_json = content.metadata_json;
  }
  recording.include = globs->include;
  recording.exclude = globs->exclude;
  const bool force = recording.force, readable = recording.readable;
  content.ending.recording = std::move(recording);
  auto* const request = new RunRequest(std::move(content));

  char error[4096] = "";
  if (runtime->check(request->get(), error, sizeof error) != 0) return Fail(kExitNotStarted, error);
  absl::StatusOr<std::unique_ptr<OutputFolder>> claimed =
      OutputFolder::Claim(folder, {.force = force, .readable = readable, .job_run = job_run});
  if (!claimed.ok()) return Fail(kExitNotStarted, claimed.status());
  request->set_folder(*std::move(claimed));
  if (options.verbose > 0) Say(absl::StrCat("trace: ", *shown_folder));
  const int exit_code = runtime->run(request->get(), error, sizeof error);
  if (exit_code >= 0) return exit_code;
  request->Drop();
  return Fail(kExitNotStarted, error);
}

int Run(const std::vector<std::string>& args) {
  RunOptions options;
  const std::unique_ptr<App> app = MakeRunApp(&options);
  const absl::StatusOr<RunArguments> split =
      SplitRunArguments(args, app->NamesWithValue(), {{"--stacks", NamesOfWhichCalls()}});
  if (!split.ok()) return Fail(kExitNotStarted, absl::StrCat(split.status().message(), SeeHelp("run")));
  if (std::optional<int> done = ParseOptions(app.get(), split->options, kExitNotStarted)) return *done;
  if (split->program.empty()) {
    return Fail(kExitNotStarted,
                absl::StrCat("no program to run: give a SCRIPT, -m MODULE or -c CODE", SeeHelp("run")));
  }
  if (!InPython()) TellUnknownVariables(*app, options.recording.quiet);
  options.frames_typed = IsTyped(app->at("--frames"), split->options);
  options.stack_format_typed = IsTyped(app->at("--stack-format"), split->options);
  std::vector<std::string> command = {"torchtrace", "run"};
  command.insert(command.end(), args.begin(), args.end());
  return RunProgram(options, split->program, command);
}

}  // namespace

const Command kRunCommand = {"run", "Run a Python program and record its calls", "Record", Run};

}  // namespace torchtrace
