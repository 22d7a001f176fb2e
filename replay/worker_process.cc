#include "replay/worker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "serialize/base/json_member.h"
#include "yaml-cpp/yaml.h"

extern char** environ;

namespace torchtrace {
namespace {

using nlohmann::json;

// The first lines that a worker reads are its own program and its options.
constexpr char kBootstrap[] = R"python(
import sys
sys.path[:] = [path for path in sys.path if path]
import json, types
# Unbuffered: what comes behind these lines is for another process.
def line():
    return json.loads(sys.stdin.buffer.raw.readline())
try:
    import torch
except ImportError as error:
    print(json.dumps({"problem": f"has no torch ({error})"}), flush=True)
    sys.exit(1)
package = sys.modules["replay"] = types.ModuleType("replay")
package.__path__ = []
for name, text in line():
    module = types.ModuleType("replay." + name)
    module.__package__ = "replay"
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(compile(text, "replay/" + name + ".py", "exec"), module.__dict__)
options = line()
getattr(package, options["main"]).main(options)
)python";

// Precedes a request, so that a worker without enough memory for it still finds its end.
struct RequestHead {
  uint64_t number;
  uint64_t line;
  uint64_t contents;
};

struct Module {
  const char* name;
  const char* text;
};
// In the order of their imports.
constexpr Module kProgram[] = {
    {
        "names",
#include "replay/names_py.inc"
    },
    {
        "arguments",
#include "replay/arguments_py.inc"
    },
    {
        "program",
#include "replay/program_py.inc"
    },
    {
        "fills",
#include "replay/fills_py.inc"
    },
    {
        "calling",
#include "replay/calling_py.inc"
    },
    {
        "results",
#include "replay/results_py.inc"
    },
    {
        "attempts",
#include "replay/attempts_py.inc"
    },
    {
        "sequence",
#include "replay/sequence_py.inc"
    },
    {
        "worker",
#include "replay/worker_py.inc"
    },
    {
        "code",
#include "replay/code_py.inc"
    },
};

constexpr char kPrelude[] =
#include "replay/code_prelude_py.inc"
    ;

constexpr char kCallable[] =
#include "replay/callable_yaml.inc"
    ;

constexpr char kRules[] =
#include "replay/rules_yaml.inc"
    ;

// Only for rules.yaml, in which a quoted scalar is text.
json FromYaml(const YAML::Node& node) {
  if (node.IsMap()) {
    json map = json::object();
    for (const auto& entry : node) map[entry.first.as<std::string>()] = FromYaml(entry.second);
    return map;
  }
  if (node.IsSequence()) {
    json list = json::array();
    for (const YAML::Node& item : node) list.push_back(FromYaml(item));
    return list;
  }
  if (node.IsNull()) return nullptr;
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_number() || value.is_boolean() ? value : json(text);
}

json Parse(const std::string& line) { return json::parse(line, nullptr, /*allow_exceptions=*/false); }

absl::Status Failed(const std::string& python, int error) {
  return absl::FailedPreconditionError(absl::StrCat("cannot start ", python, ": ", std::strerror(error)));
}

constexpr double kStartSeconds = 300;   // a cold disk, a busy machine
constexpr char kProblem[] = "problem";  // why the worker ended
constexpr char kNoTorch[] = "has no torch";
constexpr char kOtherPython[] = "--python names another one";

}  // namespace

const json& CallRules() {
  static const json* const rules = [] {
    auto* const made = new json(FromYaml(YAML::Load(kRules)));
    (*made)["callable"] = FromYaml(YAML::Load(kCallable));
    return made;
  }();
  return *rules;
}

std::string WorkerGreeting(json options) {
  json program = json::array();
  for (const Module& module : kProgram) program.push_back({module.name, module.text});
  options["rules"] = CallRules();
  options["prelude"] = kPrelude;
  return absl::StrCat(program.dump(), "\n", options.dump(), "\n");
}

absl::Status WorkerProcess::Start(const std::string& python, const std::string& greeting) {
  Kill();
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return Failed(python, errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  // The worker needs the default handlers of signals that this process changed.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGTERM, SIGHUP}) sigaddset(&defaults, signal);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  std::string words[] = {python, "-B", "-c", kBootstrap};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  const int error = posix_spawnp(&pid_, argv[0], &actions, &attributes, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  if (error != 0) {
    pid_ = -1;
    return Failed(python, error);
  }
  std::string line;
  // It may have ended without reading all of this, after writing the reason.
  Write(greeting);
  if (!ReadLine(kStartSeconds, &line)) {
    return absl::FailedPreconditionError(
        absl::StrCat(python, " does not start with torch (its output is above); ", kOtherPython));
  }
  if (const std::string problem = TextMember(Parse(line), kProblem); !problem.empty()) {
    Kill();
    if (problem.starts_with(kNoTorch)) {
      return absl::FailedPreconditionError(absl::StrCat(python, " ", problem, "; ", kOtherPython));
    }
    return absl::FailedPreconditionError(problem);
  }
  return absl::OkStatus();
}

bool WorkerProcess::Send(const std::string& request, const std::vector<std::string_view>& pieces) {
  RequestHead head = {.number = ++asked_, .line = request.size(), .contents = 0};
  for (const std::string_view piece : pieces) head.contents += piece.size();
  bool written = Write({reinterpret_cast<const char*>(&head), sizeof head}) && Write(request);
  for (const std::string_view piece : pieces) written = written && Write(piece);
  return written;
}

absl::StatusOr<json> WorkerProcess::Ask(const std::string& request, double seconds,
                                        const std::vector<std::string_view>& pieces) {
  std::string line, reason = "the worker ended, or did not answer";
  // If it doesn't read everything, it has written the reason.
  Send(request, pieces);
  while (ReadLine(seconds, &line)) {
    json said = Parse(line);
    if (IsOfEarlier(said)) continue;
    const std::string problem = TextMember(said, kProblem);
    if (problem.empty()) return said;
    reason = problem;
    break;
  }
  Kill();
  return absl::AbortedError(reason);
}

std::string WorkerProcess::Read(size_t bytes, double seconds) {
  while (read_.size() < bytes && ReadMore(seconds)) {
  }
  std::string text = read_.substr(0, bytes);
  read_.erase(0, bytes);
  return text;
}

void WorkerProcess::Finish() {
  if (to_ >= 0) close(std::exchange(to_, -1));
  if (pid_ > 0) waitpid(std::exchange(pid_, -1), nullptr, 0);
}

// The answer of a child that died after answering.
bool WorkerProcess::IsOfEarlier(const json& said) const {
  const auto number = said.find("request");
  return number != said.end() && number->is_number_unsigned() && number->get<uint64_t>() < asked_;
}

bool WorkerProcess::Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t bytes = write(to_, text.data(), text.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return false;
    text.remove_prefix(static_cast<size_t>(bytes));
  }
  return true;
}

// False when it ended, or on a timeout.
bool WorkerProcess::ReadLine(double seconds, std::string* line) {
  for (size_t searched = 0;;) {
    if (const size_t at = read_.find('\n', searched); at != std::string::npos) {
      *line = read_.substr(0, at);
      read_.erase(0, at + 1);
      return true;
    }
    searched = read_.size();
    if (!ReadMore(seconds)) return false;
  }
}

bool WorkerProcess::ReadMore(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const std::chrono::duration<double, std::milli> left = end - std::chrono::steady_clock::now();
    pollfd ready = {from_, POLLIN, 0};
    const int polled = poll(&ready, 1, static_cast<int>(std::clamp(left.count(), 0.0, 1e9)));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) return false;
    char block[1 << 16];
    const ssize_t bytes = read(from_, block, sizeof block);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return false;
    read_.append(block, static_cast<size_t>(bytes));
    return true;
  }
}

void WorkerProcess::Kill() {
  if (pid_ > 0) kill(pid_, SIGKILL);
  Finish();
  if (from_ >= 0) close(std::exchange(from_, -1));
  read_.clear();
}

}  // namespace torchtrace
