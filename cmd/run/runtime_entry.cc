// The runtime library's functions (tracer/launch/runtime_api.h), and the dialects in this build: the only place
// that knows both.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "dialects/paddle/paddle_dialect.h"
#include "dialects/torch/torch_dialect.h"
#include "tracer/launch/runtime_api.h"
#include "tracer/python/followed_run.h"
#include "tracer/python/launcher.h"
#include "tracer/record/export.h"

namespace torchtrace {
namespace {

void WriteError(absl::string_view message, char* error, uint64_t error_bytes) {
  if (error_bytes == 0) return;
  const size_t bytes = std::min<size_t>(message.size(), error_bytes - 1);
  std::memcpy(error, message.data(), bytes);
  error[bytes] = '\0';
}

absl::Status CheckVersion(const RuntimeRequest& request) {
  if (request.api_version == kRuntimeApiVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the runtime library (version ", kRuntimeApiVersion,
                                                    ") and the executable (version ", request.api_version,
                                                    ") are of different builds: tools/torchtrace builds both again"));
}

void RegisterDialects() {
  static const bool once = [] {
    RegisterTorchDialect();
    RegisterPaddleDialect();
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace
}  // namespace torchtrace

extern "C" {

TORCHTRACE_EXPORT void torchtrace_runtime_register_dialects() { torchtrace::RegisterDialects(); }

TORCHTRACE_EXPORT int torchtrace_runtime_check(const torchtrace::RuntimeRequest* request, char* error,
                                               uint64_t error_bytes) {
  absl::Status status = torchtrace::CheckVersion(*request);
  if (status.ok()) {
    torchtrace::RegisterDialects();
    status = torchtrace::CheckRequest(*request);
  }
  if (status.ok()) return 0;
  torchtrace::WriteError(status.message(), error, error_bytes);
  return 1;
}

TORCHTRACE_EXPORT int torchtrace_runtime_follow(const char* task, int argc, char** argv, char* error,
                                                uint64_t error_bytes) {
  torchtrace::RegisterDialects();
  const absl::StatusOr<int> exit_code = torchtrace::RunFollowed(task, argc, argv);
  if (exit_code.ok()) return *exit_code;
  torchtrace::WriteError(exit_code.status().message(), error, error_bytes);
  return -1;
}

TORCHTRACE_EXPORT int torchtrace_runtime_run(const torchtrace::RuntimeRequest* request, char* error,
                                             uint64_t error_bytes) {
  absl::Status status = torchtrace::CheckVersion(*request);
  if (status.ok()) {
    torchtrace::RegisterDialects();
    const absl::StatusOr<int> exit_code = torchtrace::RunProgram(*request);
    if (exit_code.ok()) return *exit_code;
    status = exit_code.status();
  }
  torchtrace::WriteError(status.message(), error, error_bytes);
  return -1;
}

}  // extern "C"
