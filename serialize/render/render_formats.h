// Which files a trace is rendered into: their names, and how --formats chooses
// among them. Plain values; callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_RENDER_RENDER_FORMATS_H_
#define TORCHTRACE_SERIALIZE_RENDER_RENDER_FORMATS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

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
  // What Parse takes, for help texts.
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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_RENDER_RENDER_FORMATS_H_
