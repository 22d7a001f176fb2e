// A process of the user's Python with torch, which runs the Python program of this room: worker.py calls, code.py
// writes code. Requests and answers are lines of JSON, requests with their lengths before them.

#ifndef TORCHTRACE_REPLAY_WORKER_PROCESS_H_
#define TORCHTRACE_REPLAY_WORKER_PROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace torchtrace {

// What the program knows about torch: rules.yaml, with callable.yaml as "callable".
const nlohmann::json& CallRules();

// The program and its options, for Start. `options` names the module to run as "main".
std::string WorkerGreeting(nlohmann::json options);

// The child ends when its input ends, so also with this process.
class WorkerProcess {
 public:
  WorkerProcess() = default;
  ~WorkerProcess() { Kill(); }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // FailedPrecondition if it doesn't start, or has no torch.
  absl::Status Start(const std::string& python, const std::string& greeting);
  bool is_running() const { return pid_ > 0; }

  // `pieces` follow the request's line. False if it ended.
  bool Send(const std::string& request, const std::vector<std::string_view>& pieces = {});
  // The answer to a request. Aborted, with the reason, if it ended or did not answer in time; then it is no longer
  // running.
  absl::StatusOr<nlohmann::json> Ask(const std::string& request, double seconds,
                                     const std::vector<std::string_view>& pieces = {});
  // Bytes that follow an answer; fewer if it ended.
  std::string Read(size_t bytes, double seconds);

  // Ends it when it is idle.
  void Finish();

 private:
  bool IsOfEarlier(const nlohmann::json& said) const;
  bool Write(std::string_view text);
  bool ReadLine(double seconds, std::string* line);
  bool ReadMore(double seconds);
  void Kill();

  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string read_;
  uint64_t asked_ = 0;  // the number of the last request
};

}  // namespace torchtrace

#endif  // TORCHTRACE_REPLAY_WORKER_PROCESS_H_
