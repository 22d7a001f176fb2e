#include "cmd/run/self_check.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cmd/cli/installation.h"
#include "dialects/scan/scan.h"
#include "dialects/torch/versions/versions.h"
#include "nlohmann/json.hpp"
#include "serialize/base/bytes.h"
#include "serialize/base/files.h"
#include "serialize/log/log_trace.h"
#include "serialize/model/levels.h"
#include "serialize/trace/run_facts.h"
#include "serialize/trace/trace.h"
#include "tracer/launch/find_python.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kProgram[] =
#include "cmd/run/self_check_program.inc"
    ;

// The first line that the program prints.
constexpr char kImported[] = "torch is imported";
constexpr char kFile[] = "/self_test.py";
constexpr char kTimedOut[] = "it did not end within a minute";

const std::vector<int> kLevels = {kSetattrLevel, kFunctionLevel, kDispatchLevel, kFrameLevel, kRecordLevel};

struct KnownCall {
  std::set<int> levels;
  const char* api;
  uint64_t calls;
};

// The calls of self_check.py.
const std::vector<KnownCall>& KnownCalls() {
  static const auto* const calls = new std::vector<KnownCall>{
      {{0, 1}, "torch.sin", 1000},
      {{0}, "torch.nn.Identity", 1000},
      {{0, 1}, "torch.Tensor.requires_grad.__get__", 1000},
      {{0, 1}, "torch.cos", 1},
      {{0, 1}, "torch.tan", 1},
      {{0, 1}, "torch.exp", 1},
      {{0, 1}, "torch.tanh", 1},
      {{2}, "aten::sin", 1000},
      {{2}, "aten::cos", 1},   // plain call
      {{2}, "aten::tan", 1},   // under a TorchDispatchMode
      {{2}, "aten::exp", 1},   // on a tensor subclass
      {{2}, "aten::tanh", 1},  // on another thread
      {{3}, "torch.nn.Identity", 1000},
      {{4}, "aten::sin", 1000},
      {{4}, "aten::exp", 1},
      {{4}, "aten::tanh", 1},
  };
  return *calls;
}

// Changes with the file.
std::string Stamp(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  const auto size = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
  return absl::StrCat(path.string(), " ", error ? 0 : time.time_since_epoch().count(), " ", size);
}

fs::path OwnExecutable() { return InstallationFolder() / "bin/torchtrace"; }

// A name that changes with everything that the result depends on; empty if no result can be kept.
fs::path KeptResult(const SelfTest& test) {
  const fs::path cache = CacheFolder();
  if (cache.empty()) return {};
  std::error_code error;
  const fs::path python = fs::canonical(test.python, error);
  std::set<std::string> facts = {test.python, test.python_version, test.torch_version, Stamp(python),
                                 Stamp(OwnExecutable())};
  for (const std::string& folder : test.package_folders) {
    const fs::path torch = fs::path(folder) / "torch";
    if (fs::is_directory(torch, error)) facts.insert(Stamp(torch));
  }
  for (fs::directory_iterator entry(test.runtime_folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".so") facts.insert(Stamp(entry->path()));
  }
  // Variables that may bring other code, or another torch, into the test.
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    for (const char* const name :
         {"PYTHONPATH=", "PYTHONHOME=", "PYTHONUSERBASE=", "TORCH_", "PYTORCH_", "LD_PRELOAD=", "LD_LIBRARY_PATH="}) {
      if (absl::StartsWith(*entry, name)) facts.insert(*entry);
    }
  }
  StreamingHash hash;
  for (const std::string& fact : facts) hash.Update(fact.data(), fact.size() + 1);
  return cache / "selftest" / absl::StrCat(absl::Hex(hash.Digest(), absl::kZeroPad16), ".json");
}

std::optional<SelfTestResult> ReadKept(const fs::path& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();  // doesn't throw if reading fails
  return ParseSelfTestResult(text.str());
}

// If the file can't be written, the next run tests again.
void Keep(const SelfTestResult& result, const fs::path& path) {
  if (path.empty()) return;
  // A job that the user suspends times out as well.
  for (const auto& [level, failure] : result) {
    if (failure.what == kTimedOut) return;
  }
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  WriteOutputFile(path.string(), FormatSelfTestResult(result)).IgnoreError();
}

// Leaves nothing behind except in `folder`, and ignores the user's environment variables for this run.
std::vector<std::string> ChildCommand(const std::string& folder) {
  std::vector<std::string> command = {"/usr/bin/env"};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (absl::StartsWith(name, "TORCHTRACE_") && name != "TORCHTRACE_RUNTIME_DIR") {
      command.insert(command.end(), {"-u", name});
    }
  }
  command.push_back("TMPDIR=" + folder);
  return command;
}

// Blocks the signals as long as it lives, so that temporary files are removed first, and the result of an interrupted
// test isn't kept.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&signals, number);
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_;
};

// Whether the program itself crashed: not killed by the user or for lack of memory.
bool IsCrash(int exit_code) {
  static const std::set<int> crashes = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
  return crashes.count(exit_code - 128) != 0;
}

// Which of these levels fail when traced together; nothing if unknown.
std::optional<SelfTestResult> TestTogether(const SelfTest& test, const std::vector<int>& levels,
                                           const std::string& folder) {
  const std::string trace = absl::StrCat(folder, "/", absl::StrJoin(levels, "-"));
  std::vector<std::string> command = ChildCommand(folder);
  command.insert(command.end(),
                 {OwnExecutable().string(), "run", "-q", "--no-self-test", "--include-getters", "--formats", "none",
                  "--python", test.python, "-l", absl::StrJoin(levels, ","), "-o", trace});
  if (test.untested_torch) command.push_back("--untested-torch");
  command.push_back(folder + kFile);
  const absl::StatusOr<CommandResult> done = RunCommand(command);
  if (!done.ok()) return std::nullopt;
  SelfTestResult result;
  const auto all_failed = [&](const LevelFailure& failure) {
    for (const int level : levels) result[level] = failure;
    return result;
  };
  // The hooks, which are installed at the end of the import, may have killed it.
  if (IsCrash(done->exit_code)) return all_failed({strsignal(done->exit_code - 128), /*died=*/true});
  if (!absl::StrContains(done->standard_output, kImported)) return std::nullopt;
  if (done->exit_code == 128 + SIGALRM) return all_failed({kTimedOut});
  if (done->exit_code > 128) return std::nullopt;
  if (done->exit_code != 0) return all_failed({absl::StrCat("it exited with ", done->exit_code)});
  const absl::StatusOr<std::unique_ptr<Trace>> read = OpenLogs(trace);
  if (!read.ok()) return std::nullopt;
  const absl::StatusOr<Statistics> counted = CountCalls(read->get(), ApiOrder::kNone);
  if (!counted.ok()) return std::nullopt;
  const RunFacts facts = GatherFacts(**read);
  if (!facts.stopped.empty()) return all_failed({facts.stopped.front()});
  if (facts.damaged || facts.unclosed != 0 || !facts.dropped.empty()) return std::nullopt;
  for (const int level : levels) {
    if (std::string wrong = CompareKnownCalls(level, *counted); !wrong.empty()) result[level] = {std::move(wrong)};
  }
  return result;
}

bool EndIsPending() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
         sigismember(&pending, SIGHUP) == 1 || sigismember(&pending, SIGQUIT) == 1;
}

// Nothing if unknown.
std::optional<SelfTestResult> TestNow(const SelfTest& test) {
  const HeldSignals held;
  std::error_code error;
  std::string folder = (fs::temp_directory_path(error) / "torchtrace-selftest-XXXXXX").string();
  if (error || mkdtemp(folder.data()) == nullptr) return std::nullopt;
  const absl::Cleanup remove = [&] { fs::remove_all(folder, error); };
  if (!WriteOutputFile(folder + kFile, kProgram).ok()) return std::nullopt;
  std::optional<SelfTestResult> together = TestTogether(test, kLevels, folder);
  if (!together.has_value() || together->empty()) return together;
  if (EndIsPending()) return std::nullopt;
  // If the program also fails untraced, no level is at fault.
  std::vector<std::string> command = ChildCommand(folder);
  command.insert(command.end(), {test.python, folder + kFile});
  if (const auto plain = RunCommand(command); !plain.ok() || plain->exit_code != 0) return std::nullopt;
  SelfTestResult result;
  for (const int level : kLevels) {
    if (EndIsPending()) return std::nullopt;
    std::optional<SelfTestResult> alone = TestTogether(test, {level}, folder);
    if (!alone.has_value()) return std::nullopt;
    result.merge(*alone);
  }
  // A failure that occurs only together is not that of a single level.
  return result.empty() ? together : result;
}

}  // namespace

std::string CompareKnownCalls(int level, const Statistics& recorded) {
  std::map<std::string, uint64_t> calls;
  for (const ApiCount& api : recorded.apis) {
    if (api.level == level) calls[api.api] += api.calls;
  }
  for (const KnownCall& known : KnownCalls()) {
    if (known.levels.count(level) == 0 || calls[known.api] == known.calls) continue;
    return absl::StrCat("of ", known.calls, known.calls == 1 ? " call of " : " calls of ", known.api, " ",
                        calls[known.api], " were recorded");
  }
  return "";
}

std::string FormatSelfTestResult(const SelfTestResult& result) {
  json failed = json::object();
  for (const auto& [level, failure] : result) {
    failed[std::to_string(level)] = {{"what", failure.what}, {"died", failure.died}};
  }
  return json{{"failed", std::move(failed)}}.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<SelfTestResult> ParseSelfTestResult(std::string_view text) {
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object() || !parsed.contains("failed") || !parsed["failed"].is_object()) return std::nullopt;
  SelfTestResult result;
  for (const auto& [name, failure] : parsed["failed"].items()) {
    int level = -1;
    if (!absl::SimpleAtoi(name, &level) || std::find(kLevels.begin(), kLevels.end(), level) == kLevels.end() ||
        !failure.is_object() || !failure.contains("what") || !failure["what"].is_string() ||
        !failure.contains("died") || !failure["died"].is_boolean()) {
      return std::nullopt;
    }
    result[level] = {failure["what"].get<std::string>(), failure["died"].get<bool>()};
  }
  return result;
}

std::optional<SelfTestResult> TestLevels(const SelfTest& test) {
  // A torch that is refused anyway needs no test.
  if (!torch_dialect::FindTorchEra(test.torch_version, test.untested_torch).ok()) return std::nullopt;
  const fs::path kept = KeptResult(test);
  if (!kept.empty()) {
    if (std::optional<SelfTestResult> result = ReadKept(kept); result.has_value()) return result;
  }
  if (test.tell) {
    test.tell(absl::StrCat("testing the levels with Python ", test.python_version, " and torch ", test.torch_version,
                           " ...", kept.empty() ? "" : " (once, some seconds)"));
  }
  std::optional<SelfTestResult> result = TestNow(test);
  if (result.has_value()) {
    Keep(*result, kept);
  } else if (test.tell) {
    test.tell("the levels could not be tested; the next run tries again");
  }
  return result;
}

}  // namespace torchtrace
