#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "replay/replay.h"
#include "replay/worker_process.h"
#include "serialize/base/json_member.h"

namespace torchtrace {
namespace {

using nlohmann::json;

std::string Greeting(const WorkerOptions& options) {
  return WorkerGreeting({{"main", "worker"},
                         {"device", options.device},
                         {"seed", options.seed},
                         {"timeout", options.timeout_s},
                         {"threads", options.threads},
                         {"max_bytes", options.max_bytes},
                         {"max_memory", options.max_memory},
                         {"sequence", options.sequence}});
}

ReplayAnswer ParseAnswer(const json& said) {
  ReplayAnswer answer;
  const auto text = [&said](const char* name) { return TextMember(said, name); };
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

// Asks for a call.
ReplayAnswer AskCall(WorkerProcess* worker, const std::string& request, double seconds,
                     const std::vector<std::string_view>& pieces = {}) {
  const absl::StatusOr<json> said = worker->Ask(request, seconds, pieces);
  if (said.ok()) return ParseAnswer(*said);
  return {.result = "crashed", .reason = std::string(said.status().message())};
}

// A worker ends calls by its own timer. This limit is for a worker that is stuck.
double Patience(const WorkerOptions& options) {
  return options.timeout_s * (2 + static_cast<double>(options.max_bytes) / (64 << 20)) + 60;
}

}  // namespace

struct LoneWorker::Process {
  WorkerProcess worker;
};

LoneWorker::LoneWorker(const WorkerOptions& options) : options_(options), process_(std::make_unique<Process>()) {}
LoneWorker::~LoneWorker() { process_->worker.Finish(); }

absl::Status LoneWorker::Start() { return process_->worker.Start(options_.python, Greeting(options_)); }
bool LoneWorker::is_running() const { return process_->worker.is_running(); }
ReplayAnswer LoneWorker::Ask(const std::string& request, const std::vector<std::string_view>& pieces) {
  return AskCall(&process_->worker, request, Patience(options_), pieces);
}

absl::Status RunWorkers(const WorkerOptions& options, const std::function<bool(ReplayItem*)>& next,
                        const std::function<absl::Status(const ReplayItem&, const ReplayAnswer&)>& done) {
  const std::string greeting = Greeting(options);
  const double patience = Patience(options);
  std::mutex mutex;
  absl::Status status;
  const auto ask = [&](WorkerProcess* worker, const ReplayItem& item) -> absl::StatusOr<ReplayAnswer> {
    if (!worker->is_running()) {
      if (absl::Status s = worker->Start(options.python, greeting); !s.ok()) return s;
    }
    return AskCall(worker, item.request, patience);
  };
  const auto run = [&] {
    WorkerProcess worker;
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
