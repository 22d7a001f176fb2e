// A RuntimeRequest with everything that it points to. Make it with new and leave
// it: the traced program may end in an exit handler, when main()'s frame is gone.

#ifndef TORCHTRACE_CMD_RUN_RUN_REQUEST_H_
#define TORCHTRACE_CMD_RUN_RUN_REQUEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tracer/launch/output_folder.h"
#include "tracer/launch/run_ending.h"
#include "tracer/launch/runtime_api.h"

namespace torchtrace {

class RunRequest {
 public:
  struct Content {
    std::vector<std::string> argv;  // what python is given, its own name included
    std::string python_version;
    std::string package_version;
    std::string metadata_json;
    std::string signal_message;
    std::string late_signal_message;
    RunEnding::Options ending;
  };

  explicit RunRequest(Content content);
  RunRequest(const RunRequest&) = delete;
  RunRequest& operator=(const RunRequest&) = delete;

  const RuntimeRequest* get() const { return &request_; }

  // Where the trace is written. It is ours until the program has ended.
  void set_folder(std::unique_ptr<OutputFolder> folder) { folder_ = std::move(folder); }
  // The program wasn't started: leaves no trace of it.
  void Drop();

 private:
  static int OnStarting(void* request, char* error, uint64_t error_bytes);
  static void OnEnded(const RuntimeEnd* end, void* request);

  Content content_;
  const std::string log_folder_;
  const std::string options_json_;
  std::vector<char*> argv_;
  RunEnding ending_;
  std::unique_ptr<OutputFolder> folder_;
  bool started_ = false;
  RuntimeRequest request_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_RUN_RUN_REQUEST_H_
