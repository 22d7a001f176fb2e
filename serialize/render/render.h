// Render writes the files that users read from a trace: api_trace.yaml and
// .txt, api_apis.txt, api_configs.txt and .yaml, api_statistics.txt and .yaml, api_stacks.yaml.
// Each config is formatted once and each call copies its line, so that memory
// goes with the configs. A file appears whole or not at all: it is written
// under a temporary name, and all are renamed when the last one is complete.

#ifndef TORCHTRACE_SERIALIZE_RENDER_RENDER_H_
#define TORCHTRACE_SERIALIZE_RENDER_RENDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/forms/stack_text.h"
#include "serialize/render/render_formats.h"
#include "serialize/trace/statistics.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

inline constexpr uint64_t kDefaultRenderLimit = 1'000'000;
inline constexpr uint64_t kNoRenderLimit = UINT64_MAX;

struct RenderOptions {
  RenderFormats formats = RenderFormats::All();
  // Beyond so many calls the files that list every call are left out. `run`
  // takes kDefaultRenderLimit, `render` kNoRenderLimit unless told otherwise.
  uint64_t render_limit = kDefaultRenderLimit;
  // All levels in one set of files, else `api_trace_level_1.yaml` and so on,
  // for every level that was asked for.
  bool merge_output = true;
  std::string folder;  // created when missing
  // Replace files that exist; without it they are an error, found before
  // anything is written.
  bool force = false;
  // Of api_stacks.yaml; else as it was asked for when the trace was recorded.
  std::optional<StackFormat> stack_format;
  std::string trace_path;  // as the report's command names the trace; empty: `folder`
  // Of the files; the umask applies.
  mode_t mode = 0666;
};

struct RenderReport {
  std::vector<std::string> files;  // paths written, in RenderFile's order
  Statistics statistics;           // of the whole trace
  // The listing files were left out for render_limit, and this makes them.
  bool listing_left_out = false;
  std::string listing_command;
  // Calls that were recorded and that no file shows: the log is damaged.
  uint64_t lost_calls = 0;
  bool lost_calls_exact = true;  // false: at least lost_calls
};

// What others may do with all of the trace's logs: its files tell no more.
mode_t FileModeOf(const Trace& trace);

// Errors name the file and the cause: AlreadyExists (says --force),
// ResourceExhausted (full disk), PermissionDenied, NotFound, DataLoss.
absl::StatusOr<RenderReport> Render(Trace* trace, const RenderOptions& options);

// What a render said, for people: sentences without a prefix, for `render`.
std::vector<std::string> RenderReportLines(const RenderReport& report);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_RENDER_RENDER_H_
