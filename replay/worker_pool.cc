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
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "replay/replay.h"
#include "serialize/flow/target.h"
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
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(compile(text, "replay/" + name + ".py", "exec"), module.__dict__)
module.main(line())
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
};

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

const json& Rules() {
  static const json* const rules = [] {
    auto* const made = new json(FromYaml(YAML::Load(kRules)));
    (*made)["callable"] = FromYaml(YAML::Load(std::string(CallableNames())));
    return made;
  }();
  return *rules;
}

std::string Greeting(const WorkerOptions& options) {
  json program = json::array();
  for (const Module& module : kProgram) program.push_back({module.name, module.text});
  const json request = {{"rules", Rules()},
                        {"device", options.device},
                        {"seed", options.seed},
                        {"timeout", options.timeout_s},
                        {"threads", options.threads},
                        {"max_bytes", options.max_bytes},
                        {"max_memory", options.max_memory},
                        {"sequence", options.sequence}};
  return absl::StrCat(program.dump(), "\n", request.dump(), "\n");
}

std::string TextOf(const json& said, const char* name) {
  const auto at = said.find(name);
  return at != said.end() && at->is_string() ? at->get<std::string>() : std::string();
}

ReplayAnswer ParseAnswer(const json& said) {
  ReplayAnswer answer;
  const auto text = [&said](const char* name) { return TextOf(said, name); };
  if (!said.is_object()) {
    answer.result = "crashed";
    answer.reason = "the worker's answer can't be read";
    return answer;
  }
  if (const std::string died = text("died"); !died.empty()) {
    answer.result = died == "SIGALRM" ? "timeout" : "crashed";
    if (answer.result == "crashed") {
      answer.reason = text("said").empty() ? died : absl::StrCat(died, ": ", text("said"));
    }
    return answer;
  }
  answer.result = text("result");
  answer.reason = text("reason");
  answer.difference = text("difference");
  answer.details = said;
  if (const auto raised = said.find("raised"); raised != said.end() && raised->is_array()) {
    for (const json& name : *raised) answer.raised.push_back(name.is_string() ? name.get<std::string>() : "");
  }
  if (const auto seconds = said.find("seconds"); seconds != said.end() && seconds->is_number()) {
    answer.seconds = seconds->get<double>();
  }
  return answer;
}

// A process, and lines to and from it. The child ends when its input ends, so also with this process.
class Worker {
 public:
  ~Worker() { Kill(); }

  absl::Status Start(const WorkerOptions& options, const std::string& greeting) {
    Kill();
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return Failed(options, errno);
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
    std::string words[] = {options.python, "-B", "-c", kBootstrap};
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
      return Failed(options, error);
    }
    std::string line;
    // It may have ended without reading all of this, after writing the reason.
    Write(greeting);
    if (!ReadLine(kStartSeconds, &line)) {
      return absl::FailedPreconditionError(absl::StrCat(
          options.python, " cannot replay: it does not start with torch (its output is above); ", kOtherPython));
    }
    if (const std::string problem = TextOf(Parse(line), kProblem); !problem.empty()) {
      Kill();
      if (problem.starts_with(kNoTorch)) {
        return absl::FailedPreconditionError(absl::StrCat(options.python, " ", problem, "; ", kOtherPython));
      }
      return absl::FailedPreconditionError(problem);
    }
    return absl::OkStatus();
  }

  ReplayAnswer Ask(const std::string& request, double seconds, const std::vector<std::string_view>& pieces = {}) {
    std::string line;
    RequestHead head = {.number = ++asked_, .line = request.size(), .contents = 0};
    for (const std::string_view piece : pieces) head.contents += piece.size();
    bool written = Write({reinterpret_cast<const char*>(&head), sizeof head}) && Write(request);
    for (const std::string_view piece : pieces) written = written && Write(piece);
    ReplayAnswer answer;
    answer.result = "crashed";
    answer.reason = "the worker ended, or did not answer";
    // If it didn't read everything, it has written the reason.
    while (ReadLine(seconds, &line)) {
      const json said = Parse(line);
      if (IsOfEarlier(said)) continue;
      const std::string problem = TextOf(said, kProblem);
      if (problem.empty()) return ParseAnswer(said);
      answer.reason = problem;
      break;
    }
    Kill();
    return answer;
  }

  bool is_running() const { return pid_ > 0; }

  // Ends it when it is idle.
  void Finish() {
    if (to_ >= 0) close(std::exchange(to_, -1));
    if (pid_ > 0) waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  static constexpr double kStartSeconds = 300;   // a cold disk, a busy machine
  static constexpr char kProblem[] = "problem";  // why the worker ended
  static constexpr char kNoTorch[] = "has no torch";
  static constexpr char kOtherPython[] = "--python names another one";

  static json Parse(const std::string& line) { return json::parse(line, nullptr, /*allow_exceptions=*/false); }

  // The answer of a child that died after answering.
  bool IsOfEarlier(const json& said) const {
    const auto number = said.find("request");
    return number != said.end() && number->is_number_unsigned() && number->get<uint64_t>() < asked_;
  }

  bool Write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t bytes = write(to_, text.data(), text.size());
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes <= 0) return false;
      text.remove_prefix(static_cast<size_t>(bytes));
    }
    return true;
  }

  // False when it ended, or on a timeout.
  bool ReadLine(double seconds, std::string* line) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
      if (const size_t at = read_.find('\n'); at != std::string::npos) {
        *line = read_.substr(0, at);
        read_.erase(0, at + 1);
        return true;
      }
      const std::chrono::duration<double, std::milli> left = end - std::chrono::steady_clock::now();
      pollfd ready = {from_, POLLIN, 0};
      const int polled = poll(&ready, 1, static_cast<int>(std::clamp(left.count(), 0.0, 1e9)));
      if (polled < 0 && errno == EINTR) continue;
      if (polled <= 0) return false;
      char block[1 << 14];
      const ssize_t bytes = read(from_, block, sizeof block);
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes <= 0) return false;
      read_.append(block, static_cast<size_t>(bytes));
    }
  }

  static absl::Status Failed(const WorkerOptions& options, int error) {
    return absl::FailedPreconditionError(absl::StrCat("cannot start ", options.python, ": ", std::strerror(error)));
  }

  void Kill() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    Finish();
    if (from_ >= 0) close(std::exchange(from_, -1));
    read_.clear();
  }

  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string read_;
  uint64_t asked_ = 0;  // the number of the last request
};

// A worker ends calls by its own timer. This limit is for a worker that is stuck.
double Patience(const WorkerOptions& options) {
  return options.timeout_s * (2 + static_cast<double>(options.max_bytes) / (64 << 20)) + 60;
}

}  // namespace

struct LoneWorker::Process {
  Worker worker;
};

LoneWorker::LoneWorker(const WorkerOptions& options) : options_(options), process_(std::make_unique<Process>()) {}
LoneWorker::~LoneWorker() { process_->worker.Finish(); }

absl::Status LoneWorker::Start() { return process_->worker.Start(options_, Greeting(options_)); }
bool LoneWorker::is_running() const { return process_->worker.is_running(); }
ReplayAnswer LoneWorker::Ask(const std::string& request, const std::vector<std::string_view>& pieces) {
  return process_->worker.Ask(request, Patience(options_), pieces);
}

absl::Status RunWorkers(const WorkerOptions& options, const std::function<bool(ReplayItem*)>& next,
                        const std::function<absl::Status(const ReplayItem&, const ReplayAnswer&)>& done) {
  const std::string greeting = Greeting(options);
  const double patience = Patience(options);
  std::mutex mutex;
  absl::Status status;
  const auto ask = [&](Worker* worker, const ReplayItem& item) -> absl::StatusOr<ReplayAnswer> {
    if (!worker->is_running()) {
      if (absl::Status s = worker->Start(options, greeting); !s.ok()) return s;
    }
    return worker->Ask(item.request, patience);
  };
  const auto run = [&] {
    Worker worker;
    // It has made no call that may have corrupted its memory.
    bool fresh = true;
    for (;;) {
      ReplayItem item;
      {
        const std::lock_guard<std::mutex> lock(mutex);
        if (!status.ok() || !next(&item)) break;
      }
      absl::StatusOr<ReplayAnswer> answer = ask(&worker, item);
      // An earlier call may have caused it.
      if (answer.ok() && answer->result == "crashed" && !fresh) answer = ask(&worker, item);
      const std::lock_guard<std::mutex> lock(mutex);
      if (!answer.ok()) {
        status.Update(answer.status());
        break;
      }
      fresh = answer->result == "crashed" || answer->result == "timeout";
      status.Update(done(item, *answer));
    }
    worker.Finish();
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(options.workers));
  for (int i = 0; i < options.workers; ++i) threads.emplace_back(run);
  for (std::thread& thread : threads) thread.join();
  return status;
}

}  // namespace torchtrace
