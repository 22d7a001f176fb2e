#include "cmd/run/run_request.h"

#include <cstdio>
#include <utility>

#include "absl/status/status.h"

namespace torchtrace {
namespace {

// Ends with null; points into `strings`.
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
  const bool quiet = content_.ending.recording.quiet;
  request_.signal_message = quiet ? nullptr : content_.signal_message.c_str();
  request_.late_signal_message = quiet ? nullptr : content_.late_signal_message.c_str();
  request_.starting = OnStarting;
  request_.ended = OnEnded;
  request_.context = this;
}

void RunRequest::Drop() {
  if (folder_ != nullptr) folder_->Drop();
  folder_.reset();
}

int RunRequest::OnStarting(void* request, char* error, uint64_t error_bytes) {
  auto* const self = static_cast<RunRequest*>(request);
  const absl::Status status = self->folder_->RemoveEarlierTrace();
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
  self->ending_.Finish();
  self->folder_.reset();
}

}  // namespace torchtrace
