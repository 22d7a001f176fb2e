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

// Keeps what is made from each config, such as its line of text, so that a
// trace's calls only copy it. Memory is limited: what does not fit any more is
// made again for every call. Not thread-safe; owns the lines.

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

// The text and YAML of a trace's configs by their ids, as files and reports
// show them. A definition that cannot be read, which only a faulty writer
// leaves, still gets a line that says so. `trace` must outlive the results.

// Without a line break.
std::string ConfigText(const Trace& trace, ConfigId config);
std::string ConfigText(std::string_view identity);
// With long containers shortened (forms.h).
std::string FoldedConfigText(const Trace& trace, ConfigId config);
// An item of api_trace.yaml.
std::string VariantYaml(const Trace& trace, VariantId variant);
// An item of api_configs.yaml, with its level and how often it was called.
std::string ConfigYaml(const Trace& trace, ConfigId config, uint64_t calls);
// {"level", "api", "args", "kwargs"}
nlohmann::ordered_json VariantJson(const Trace& trace, VariantId variant);

// How stacks are shown (docs/STACKS.md): a calling line as `train.py:12 in Net.forward`, a
// frame in one of api_tracer's forms. One thread; the trace must outlive it.

enum class StackFormat : uint8_t {
  kShort,  // train.py:12 in forward
  kFull,   // as in a traceback, with the line's text where its file can be read
  kApi,    // package.module.Net.forward
};
const Choices<StackFormat>& StackFormats();

// Calls of the trace were recorded with their stacks, as far as its metadata says.
bool HasStacks(const Trace& trace);
// The form that was asked for when it was recorded; else kShort.
StackFormat StackFormatOf(const Trace& trace);

class StackText {
 public:
  explicit StackText(const Trace& trace);

  // One line of text. Files below the folder that the program was started in are named from
  // there, those of installed packages by package.
  std::string Line(LineId line) const;
  // The same without the function.
  std::string Place(LineId line) const;
  // Two lines where kFull has the line's text.
  std::string Frame(StackId stack, StackFormat format);
  // Innermost first, as many as are recorded.
  std::vector<std::string> Frames(StackId stack, StackFormat format);
  // What the file is called in Line.
  std::string File(std::string_view file) const;

 private:
  // Without the blanks around; empty where the file isn't there or is newer than the trace.
  std::string SourceLine(std::string_view file, uint32_t line);

  const StackTable& stacks_;
  std::string folder_;      // that the program was started in, with a slash
  int64_t started_ns_ = 0;  // time of day
  std::map<std::string, std::vector<std::string>, std::less<>> sources_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_TRACE_LINES_H_
