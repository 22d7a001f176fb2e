#include "cmd/run/run_request.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cmd/cli/installation.h"
#include "serialize/base/files.h"
#include "tracer/follow/follow.h"

namespace torchtrace {
namespace {

bool IsProgramOption(char letter) { return letter == 'm' || letter == 'c'; }

absl::Status NeedsArgument(char letter) {
  return absl::InvalidArgumentError(letter == 'm' ? "-m needs the name of a module" : "-c needs the code to run");
}

// Moves args[first] and everything after it into the program. `option`: replaces args[first], when it is -m or -c.
absl::Status TakeProgram(const std::vector<std::string>& args, size_t first, const std::string& option,
                         RunArguments* split) {
  split->program.assign(args.begin() + static_cast<ptrdiff_t>(first), args.end());
  if (option.empty()) return absl::OkStatus();
  split->program.front() = option;
  // `-mX` contains its argument; `-m` alone is followed by it.
  if (option.size() == 2 && split->program.size() < 2) return NeedsArgument(option[1]);
  return absl::OkStatus();
}

// Handles the words after `--`.
absl::Status TakeAfterDashes(const std::vector<std::string>& args, size_t first, RunArguments* split) {
  if (first == args.size()) return absl::OkStatus();
  const std::string& arg = args[first];
  if (arg == "-" || arg.empty() || arg[0] != '-') return TakeProgram(args, first, "", split);
  if (IsProgramOption(arg[1])) return TakeProgram(args, first, arg, split);
  return absl::InvalidArgumentError(absl::StrCat("'", arg, "' after -- is not a script, -m MODULE or -c CODE",
                                                 " (python's own options: --python-arg=", arg, ")"));
}

}  // namespace

absl::StatusOr<RunArguments> SplitRunArguments(const std::vector<std::string>& args,
                                               const OptionsWithValue& options_with_value,
                                               const OptionsWithChoice& options_with_choice) {
  RunArguments split;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--") {
      if (absl::Status status = TakeAfterDashes(args, i + 1, &split); !status.ok()) return status;
      return split;
    }
    if (arg.empty() || arg[0] != '-' || arg == "-") {
      if (absl::Status status = TakeProgram(args, i, "", &split); !status.ok()) return status;
      return split;
    }
    if (const auto choice = options_with_choice.find(arg); choice != options_with_choice.end() && i + 1 < args.size() &&
                                                           absl::c_linear_search(choice->second, args[i + 1])) {
      split.options.push_back(absl::StrCat(arg, "=", args[++i]));
      continue;
    }
    bool value_follows = false;
    if (arg[1] == '-') {
      value_follows = options_with_value.count(arg) != 0;
    } else {
      // Combined short options: -qfl1, -qm pkg.
      for (size_t at = 1; at < arg.size(); ++at) {
        if (IsProgramOption(arg[at])) {
          if (at > 1) split.options.push_back(arg.substr(0, at));
          if (absl::Status status = TakeProgram(args, i, absl::StrCat("-", arg.substr(at)), &split); !status.ok()) {
            return status;
          }
          return split;
        }
        if (options_with_value.count({'-', arg[at]}) != 0) {
          value_follows = at + 1 == arg.size();
          break;
        }
      }
    }
    split.options.push_back(arg);
    if (value_follows && i + 1 < args.size()) split.options.push_back(args[++i]);
  }
  return split;
}

std::string ProgramStem(const std::vector<std::string>& program) {
  std::string name = program.empty() ? "" : program[0];
  if (name.compare(0, 2, "-c") == 0) return "c";
  if (name.compare(0, 2, "-m") == 0) {
    name = name.size() > 2 ? name.substr(2) : program.size() > 1 ? program[1] : "";
    name = std::string(absl::StripSuffix(name, ".__main__"));
    name = name.substr(name.find_last_of("./") + 1);
    return name.empty() ? "m" : name;
  }
  if (name == "-") return "stdin";
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  name = name.substr(name.rfind('/') + 1);
  const size_t dot = name.rfind('.');
  if (dot != std::string::npos && dot > 0 && name != "..") name.resize(dot);
  return name.empty() || name == "." || name == ".." ? "program" : name;
}

namespace {

namespace fs = std::filesystem;

bool HoldsRuntime(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kRuntimeLibraryName, error);
}

fs::path RuntimesFolder() {
  if (const char* const folder = getenv("TORCHTRACE_RUNTIME_DIR"); folder != nullptr && *folder != '\0') return folder;
  std::error_code error;
  fs::path beside = InstallationFolder() / "runtime";
  fs::path of_wheel = fs::is_directory(beside, error) ? fs::path() : RuntimesOfWheel();
  return of_wheel.empty() ? beside : of_wheel;
}

}  // namespace

std::vector<std::string> AvailableRuntimes() {
  const fs::path folder = RuntimesFolder();
  std::vector<std::string> keys;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (HoldsRuntime(entry->path())) keys.push_back(entry->path().filename().string());
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::string RuntimeKey(const std::string& python_version) {
  return absl::StrCat("py", python_version.substr(0, python_version.find('.', python_version.find('.') + 1)));
}

std::map<std::string, std::string> RuntimeLibraries(const std::string& folder, const PythonInfo& info) {
  std::map<std::string, std::string> libraries;
  const auto add = [&](const std::string& key, const fs::path& of) {
    libraries[key.substr(2)] = fs::absolute(of / kRuntimeLibraryName).lexically_normal().string();
  };
  if (!HoldsRuntime(RuntimesFolder())) {
    for (const std::string& key : AvailableRuntimes()) add(key, RuntimesFolder() / key);
  }
  add(RuntimeKey(info.version), folder);
  return libraries;
}

absl::StatusOr<std::string> FindRuntimeFolder(const FoundPython& python, const PythonInfo& info) {
  const fs::path folder = RuntimesFolder();
  if (HoldsRuntime(folder)) return folder.string();
  const std::vector<std::string> keys = AvailableRuntimes();
  if (const std::string wanted = RuntimeKey(info.version); absl::c_linear_search(keys, wanted)) {
    return (folder / wanted).string();
  }
  return absl::NotFoundError(absl::StrCat(
      python.path, " (named by ", python.source, ") is Python ", info.version, ", but ",
      keys.empty() ? absl::StrCat("there is no runtime in ", folder.lexically_normal().string())
                   : absl::StrCat("the runtimes built are for ", absl::StrJoin(keys, ", ")),
      EnvironmentOfWheel().empty()
          ? absl::StrCat("; `tools/torchtrace run --python ", info.executable, " ...` builds the missing one")
          : "; a wheel of torchtrace is for one minor version, and runs the Python that it was installed for"));
}

absl::StatusOr<RuntimeLibrary> LoadRuntime(const std::string& folder, const PythonInfo& info) {
  const std::string path = absl::StrCat(folder, "/", kRuntimeLibraryName);
  // First the library of the same Python, since the runtime isn't linked to one.
  if (!InPython() && dlopen(info.libpython.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return absl::NotFoundError(absl::StrCat("cannot load Python's library: ", dlerror()));
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return absl::NotFoundError(absl::StrCat("cannot load the runtime: ", dlerror()));
  RuntimeLibrary runtime;
  runtime.check = reinterpret_cast<RuntimeCheckFunction>(dlsym(library, kRuntimeCheckName));
  runtime.run = reinterpret_cast<RuntimeRunFunction>(dlsym(library, kRuntimeRunName));
  if (runtime.check == nullptr || runtime.run == nullptr) {
    return absl::NotFoundError(absl::StrCat(path, " is not a torchtrace runtime"));
  }
  return runtime;
}

namespace {

// Pointers into `strings`, ends with null.
std::vector<char*> CList(std::vector<std::string>* strings) {
  std::vector<char*> list;
  for (std::string& string : *strings) list.push_back(string.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

RunRequest::RunRequest(Content content)
    : content_(std::move(content)),
      log_folder_(content_.ending.folder + "/log"),
      options_json_(FormatRecordingOptions(content_.ending.recording)),
      argv_(CList(&content_.argv)),
      task_path_(content_.follow ? FollowTaskPath(log_folder_, content_.follow->run) : ""),
      library_(PreloadLibrary().string()),
      ending_(content_.ending),
      request_() {
  request_.api_version = kRuntimeApiVersion;
  request_.argc = static_cast<int>(content_.argv.size());
  request_.argv = argv_.data();
  request_.python_version = content_.python_version.c_str();
  request_.package_version = content_.package_version.c_str();
  request_.options_json = options_json_.c_str();
  request_.log_folder = log_folder_.c_str();
  request_.metadata_json = content_.metadata_json.c_str();
  if (content_.follow) {
    content_.follow->ending = content_.ending;
    request_.follow_task = task_path_.c_str();
    request_.follow_library = library_.c_str();
  }
  const bool quiet = content_.ending.recording.quiet;
  request_.signal_message = quiet ? nullptr : content_.signal_message.c_str();
  request_.late_signal_message = quiet ? nullptr : content_.late_signal_message.c_str();
  request_.starting = OnStarting;
  request_.ended = OnEnded;
  request_.fork_ended = OnForkEnded;
  request_.context = this;
}

void RunRequest::Drop() {
  if (folder_ != nullptr) folder_->Drop();
  folder_.reset();
}

absl::Status RunRequest::WriteTask() {
  if (!content_.follow) return absl::OkStatus();
  const std::string text = FormatFollowTask(*content_.follow);
  if (absl::Status status = WriteOutputFile(task_path_, text, {.mode = 0600, .follow = false}); !status.ok()) {
    return status;
  }
  // On file systems where modes mean nothing nobody would take it.
  struct stat info;
  if (stat(task_path_.c_str(), &info) != 0 || (info.st_mode & 0077) != 0) request_.follow_task = nullptr;
  return folder_->Share();
}

int RunRequest::OnStarting(void* request, char* error, uint64_t error_bytes) {
  auto* const self = static_cast<RunRequest*>(request);
  absl::Status status;
  if (!self->folder_->joined()) {
    status = self->folder_->RemoveEarlierTrace();
    if (status.ok()) status = self->WriteTask();
  }
  self->started_ = status.ok();
  if (!status.ok()) snprintf(error, error_bytes, "%s", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}

void RunRequest::OnEnded(const RuntimeEnd* end, void* request) {
  auto* const self = static_cast<RunRequest*>(request);
  if (end->provisional != 0) {
    self->ending_.RenderEarly();
    return;
  }
  if (!self->started_) return self->Drop();
  self->Finish();
  self->folder_.reset();
}

// The process that was forked renders itself, as a started one does.
void RunRequest::OnForkEnded(void* request) {
  auto* const self = static_cast<RunRequest*>(request);
  if (!self->started_ || !self->content_.follow || !self->folder_->locks() || !self->folder_->TakeAlone()) return;
  if (access(self->task_path_.c_str(), F_OK) == 0) self->ending_.RenderAgain();
  self->folder_.reset();
}

namespace {

// Whether a process that was started may know the task.
bool HandedOn() {
  const auto handed_on = reinterpret_cast<TaskHandedOnFunction>(dlsym(RTLD_DEFAULT, kTaskHandedOnName));
  return handed_on == nullptr || handed_on();
}

}  // namespace

// The last process that ends renders what all have recorded. Where the user waits for this one, not for a job, it
// always does, and again if others have ended meanwhile: they saw that it still ran.
void RunRequest::Finish() {
  const bool last = !content_.follow || folder_->TakeAlone();
  if (content_.of_job) {
    if (last) ending_.Finish();
    return;
  }
  if (!last && absl::IsAlreadyExists(folder_->Share()) && access(task_path_.c_str(), F_OK) != 0) return;
  ending_.Finish();
  if (last && content_.follow && !HandedOn()) unlink(task_path_.c_str());
  if (!last && folder_->TakeAlone()) ending_.RenderAgain();
}

}  // namespace torchtrace
