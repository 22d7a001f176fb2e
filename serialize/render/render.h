// The files that a run writes next to its logs: configs, traces, statistics, run.json.

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

// The set of files that --formats chooses. Callable from any thread.
class RenderFormats {
 public:
  static RenderFormats All() { return RenderFormats((1u << kRenderFileCount) - 1); }
  static RenderFormats None() { return RenderFormats(0); }
  // A comma-separated list of
  //   yaml, txt                          every file of that kind
  //   trace, apis, configs, statistics, stacks   its text and YAML
  //   trace.txt, configs.yaml, ...       that one file
  // or `all` or `none` alone. InvalidArgument with the choices for anything else.
  static absl::StatusOr<RenderFormats> Parse(std::string_view text);
  // The names that Parse accepts.
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

// `api_trace.yaml`; for one level `api_trace_level_1.yaml`.
std::string RenderFileName(RenderFile file, std::optional<int> level);

// True for the name (without folder) of any file that Render or WriteRunInfo
// can write: a run that overwrites a folder removes these.
bool IsRenderedFileName(std::string_view name);

inline constexpr uint64_t kDefaultRenderLimit = 100'000;
inline constexpr uint64_t kNoRenderLimit = UINT64_MAX;

struct RenderOptions {
  RenderFormats formats = RenderFormats::All();
  // Leaves out the files that list every call if there are more calls. The default
  // of `run` is kDefaultRenderLimit, that of `render` kNoRenderLimit.
  uint64_t render_limit = kDefaultRenderLimit;
  // All levels in one set of files; false: `api_trace_level_1.yaml` and so on,
  // for every requested level.
  bool merge_output = true;
  std::string folder;  // created when missing
  // Replaces existing files; without it they are an error, found before
  // anything is written.
  bool force = false;
  // Of api_stacks.yaml; default: the format that the trace's metadata asks for.
  std::optional<StackFormat> stack_format;
  std::string trace_path;  // the trace in the report's command; empty: `folder`
  // Of the files; the umask applies.
  mode_t mode = 0666;
};

struct RenderReport {
  std::vector<std::string> files;  // paths written, in RenderFile's order
  Statistics statistics;           // of the whole trace
  // The listing files were left out because of render_limit; this command writes them.
  bool listing_left_out = false;
  std::string listing_command;
  // Recorded calls that are in no file because the log is damaged.
  uint64_t lost_calls = 0;
  bool lost_calls_exact = true;  // false: at least lost_calls
};

// The permissions that all of the trace's logs have, for the files rendered from them.
mode_t FileModeOf(const Trace& trace);

// Writes the files that users read from a trace: api_trace.yaml and .txt, api_apis.txt, api_configs.txt and .yaml,
// api_statistics.txt and .yaml, api_stacks.yaml. Formats each config once and copies its line for each call, so memory
// grows with the configs. Files get temporary names, and all are renamed when the last one is complete.
//
// Errors name the file and the cause: AlreadyExists (mentions --force),
// ResourceExhausted (full disk), PermissionDenied, NotFound, DataLoss.
absl::StatusOr<RenderReport> Render(Trace* trace, const RenderOptions& options);

// The report for people: sentences without a prefix, for `render`.
std::vector<std::string> RenderReportLines(const RenderReport& report);

// The content of run.json, from the metadata of the logs and from counting them: it can be made again after a kill -9
// from what the killed process left. Read or count `trace` first, for `statistics`; `report` says what was not
// rendered, and may be null.
nlohmann::ordered_json BuildRunInfo(const Trace& trace, const Statistics& statistics, const RenderReport* report);

// Writes run.json into `folder`, atomically, and replaces an older one. The umask applies to `mode`.
absl::Status WriteRunInfo(const nlohmann::ordered_json& info, const std::string& folder, mode_t mode = 0666);

// The message at the end of a run, without a prefix: where the trace is, how many
// calls, APIs and configs, what was dropped, capped, damaged or not seen, and a
// suggested next command. `folder` as the user would type it; `report` may be null.
std::vector<std::string> SummaryLines(const Trace& trace, const Statistics& statistics, const RenderReport* report,
                                      const std::string& folder);

// The whole text of api_statistics.txt and api_statistics.yaml.
std::string FormatStatisticsText(const Statistics& statistics);
std::string FormatStatisticsYaml(const Statistics& statistics);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_RENDER_RENDER_H_
