// Calls and stacks of a trace as lines of text, each formatted once.

#ifndef TORCHTRACE_SERIALIZE_FORMS_TRACE_LINES_H_
#define TORCHTRACE_SERIALIZE_FORMS_TRACE_LINES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "serialize/base/choices.h"
#include "serialize/trace/tables.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Caches what is made from each config, such as its line of text, so that
// calls only copy it. Memory is limited: lines that don't fit are made again
// for every call. Not thread-safe; owns the lines.
class LineCache {
 public:
  // Makes the line of a ConfigId or VariantId; never empty.
  using Make = std::function<std::string(uint32_t id)>;
  static constexpr uint64_t kDefaultMaxBytes = uint64_t{256} << 20;

  explicit LineCache(Make make, uint64_t max_bytes = kDefaultMaxBytes)
      : make_(std::move(make)), max_bytes_(max_bytes) {}

  // Valid until the next Get.
  std::string_view Get(uint32_t id) {
    if (id >= lines_.size()) lines_.resize(id + id / 2 + 16);
    std::string& line = lines_[id];
    if (!line.empty()) return line;
    scratch_ = make_(id);
    if (bytes_ + scratch_.size() > max_bytes_) return scratch_;
    bytes_ += scratch_.size();
    line = scratch_;
    return line;
  }

 private:
  const Make make_;
  const uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  std::vector<std::string> lines_;
  std::string scratch_;
};

// The text and YAML of a trace's configs by their ids, for files and reports.
// A definition that cannot be read, which only a faulty writer leaves, becomes
// a line that says so. `trace` must outlive the results.

// Without a line break.
std::string ConfigText(const Trace& trace, ConfigId config);
std::string ConfigText(std::string_view identity);
// With long containers shortened (forms.h).
std::string FoldedConfigText(const Trace& trace, ConfigId config);
// An item of api_trace.yaml.
std::string VariantYaml(const Trace& trace, VariantId variant);
// An item of api_configs.yaml, with its level and number of calls.
std::string ConfigYaml(const Trace& trace, ConfigId config, uint64_t calls);
// {"level", "api", "args", "kwargs"}
nlohmann::ordered_json VariantJson(const Trace& trace, VariantId variant);

// How frames are printed (docs/STACKS.md), in api_tracer's forms.
enum class StackFormat : uint8_t {
  kShort,  // train.py:12 in forward
  kFull,   // as in a traceback, with the line's text if its file can be read
  kApi,    // package.module.Net.forward
};
const Choices<StackFormat>& StackFormats();

// Whether calls of the trace were recorded with stacks, by its metadata.
bool HasStacks(const Trace& trace);
// The form that was requested when the trace was recorded; otherwise kShort.
StackFormat StackFormatOf(const Trace& trace);

// Formats stacks: a calling line as `train.py:12 in Net.forward`, frames in a StackFormat.
// Not thread-safe; the trace must outlive it.
class StackText {
 public:
  explicit StackText(const Trace& trace);

  // One line of text. Files below the folder in which the program was started are named relative
  // to it, those of installed packages by package.
  std::string Line(LineId line) const;
  // The same without the function.
  std::string Place(LineId line) const;
  // Two lines if kFull includes the line's text.
  std::string Frame(StackId stack, StackFormat format);
  // All recorded frames, innermost first.
  std::vector<std::string> Frames(StackId stack, StackFormat format);
  // The name of the file in Line.
  std::string File(std::string_view file) const;

 private:
  // Without surrounding blanks; empty if the file doesn't exist or is newer than the trace.
  std::string SourceLine(std::string_view file, uint32_t line);

  const StackTable& stacks_;
  std::string folder_;      // where the program was started, with a trailing slash
  int64_t started_ns_ = 0;  // time of day
  std::map<std::string, std::vector<std::string>, std::less<>> sources_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_TRACE_LINES_H_
