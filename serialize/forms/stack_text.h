// How stacks are shown (docs/STACKS.md): a calling line as `train.py:12 in Net.forward`, a
// frame in one of api_tracer's forms. One thread; the trace must outlive it.

#ifndef TORCHTRACE_SERIALIZE_FORMS_STACK_TEXT_H_
#define TORCHTRACE_SERIALIZE_FORMS_STACK_TEXT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/trace/stack_table.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

enum class StackFormat : uint8_t {
  kShort,  // train.py:12 in forward
  kFull,   // as in a traceback, with the line's text where its file can be read
  kApi,    // package.module.Net.forward
};
// InvalidArgument with the choices.
absl::StatusOr<StackFormat> ParseStackFormat(std::string_view text);

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

#endif  // TORCHTRACE_SERIALIZE_FORMS_STACK_TEXT_H_
