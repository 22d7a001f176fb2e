// The files that a run leaves beside its logs: configs, traces, statistics, run.json.

#ifndef TORCHTRACE_SERIALIZE_RENDER_RENDER_H_
#define TORCHTRACE_SERIALIZE_RENDER_RENDER_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "serialize/forms/trace_lines.h"
#include "serialize/trace/statistics.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Which files a trace is rendered into: their names, and how --formats chooses
// among them. Plain values; callable from any thread.

enum class RenderFile : uint8_t {
  kTraceYaml,
  kTraceText,
  kApisText,
  kConfigsText,
  kConfigsYaml,
  kStatisticsText,
  kStatisticsYaml,
  kStacksYaml,  // only of a trace with stacks
};
inline constexpr int kRenderFileCount = 8;

// A set of files, as --formats says it.
class RenderFormats {
 public:
  static RenderFormats All() { return RenderFormats((1u << kRenderFileCount) - 1); }
  static RenderFormats None() { return RenderFormats(0); }
  // A comma-separated list; the files of all names together:
  //   yaml, txt                          every file of that kind
  //   trace, apis, configs, statistics, stacks   both spellings of it
  //   trace.txt, configs.yaml, ...       that one file
  //   all, none                          stand alone
  // InvalidArgument with the choices for anything else.
  static absl::StatusOr<RenderFormats> Parse(std::string_view text);
  // What Parse takes.
  static std::vector<std::string> Names();
  // The same, for help texts.
  static std::string Choices();

  bool Has(RenderFile file) const { return (bits_ >> static_cast<int>(file)) & 1; }
  void Add(RenderFile file) { bits_ |= 1u << static_cast<int>(file); }
  void Remove(RenderFile file) { bits_ &= ~(1u << static_cast<int>(file)); }
  bool empty() const { return bits_ == 0; }

 private:
  explicit RenderFormats(uint32_t bits) : bits_(bits) {}
  uint32_t bits_;
};

// `api_trace.yaml`; of one level `api_trace_level_1.yaml`.
std::string RenderFileName(RenderFile file, std::optional<int> level);

// True for the name (without folder) of any file that Render or WriteRunInfo
// can write: what a run that overwrites a folder has to clear away.
bool IsRenderedFileName(std::string_view name);

// Render writes the files that users read from a trace: api_trace.yaml and
// .txt, api_apis.txt, api_configs.txt and .yaml, api_statistics.txt and .yaml, api_stacks.yaml.
// Each config is formatted once and each call copies its line, so that memory
// goes with the configs. A file appears whole or not at all: it is written
// under a temporary name, and all are renamed when the last one is complete.

inline constexpr uint64_t kDefaultRenderLimit = 100'000;
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

// What a run was and how it went, drawn from the metadata of its logs and from
// counting them: run.json, and the sentences that end a run. The numbers are
// those of the logs as they are, so that both can be made again after a
// kill -9, from whatever the killed process left.

// The content of run.json. `trace` was read or counted before, for
// `statistics`; `report` tells what was not rendered, and may be null.
nlohmann::ordered_json BuildRunInfo(const Trace& trace, const Statistics& statistics, const RenderReport* report);

// Writes run.json into `folder`, whole or not at all, over an older one. The umask applies to `mode`.
absl::Status WriteRunInfo(const nlohmann::ordered_json& info, const std::string& folder, mode_t mode = 0666);

// What the end of a run says, without a prefix: where the trace is, how many
// calls, APIs and configs, what was dropped, capped, damaged or not seen, and
// the next command to type. `folder` as the user would type it; `report` may be null.
std::vector<std::string> SummaryLines(const Trace& trace, const Statistics& statistics, const RenderReport* report,
                                      const std::string& folder);

// The whole text of api_statistics.txt and api_statistics.yaml.

std::string FormatStatisticsText(const Statistics& statistics);
std::string FormatStatisticsYaml(const Statistics& statistics);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_RENDER_RENDER_H_
