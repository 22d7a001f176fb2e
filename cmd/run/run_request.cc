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
      argv_(CList(&content_.argv)),
      include_(CList(&content_.include)),
      exclude_(CList(&content_.exclude)),
      apis_(CList(&content_.apis)),
      ending_(content_.ending),
      request_() {
  request_.api_version = kRuntimeApiVersion;
  request_.argc = static_cast<int>(content_.argv.size());
  request_.argv = argv_.data();
  request_.python_version = content_.python_version.c_str();
  request_.package_version = content_.package_version.c_str();
  request_.dialect = content_.dialect.c_str();
  request_.levels = content_.levels.data();
  request_.level_count = static_cast<int>(content_.levels.size());
  request_.include_getters = content_.include_getters ? 1 : 0;
  request_.apis = apis_.data();
  request_.default_apis = content_.default_apis ? 1 : 0;
  request_.outermost = content_.outermost ? 1 : 0;
  request_.start_paused = content_.start_paused ? 1 : 0;
  request_.stacks = content_.stacks;
  request_.log_folder = log_folder_.c_str();
  request_.readable = content_.readable ? 1 : 0;
  request_.metadata_json = content_.metadata_json.c_str();
  request_.include = include_.data();
  request_.exclude = exclude_.data();
  request_.quiet = content_.ending.quiet ? 1 : 0;
  request_.signal_message = content_.ending.quiet ? nullptr : content_.signal_message.c_str();
  request_.late_signal_message = content_.ending.quiet ? nullptr : content_.late_signal_message.c_str();
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
