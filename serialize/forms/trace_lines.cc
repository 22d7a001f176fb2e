#include "serialize/forms/trace_lines.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace {
std::string ConfigText(std::string_view identity) { return FormatConfig(ReadableConfig(identity)); }

std::string ConfigText(const Trace& trace, ConfigId config) { return ConfigText(trace.identity(config)); }

std::string FoldedConfigText(const Trace& trace, ConfigId config) {
  return FormatFoldedConfig(ReadableConfig(trace.identity(config)));
}

std::string VariantYaml(const Trace& trace, VariantId variant) {
  return FormatYamlItem(ReadableConfig(trace.identity(trace.config_of(variant))),
                        ReadableFacets(trace.facets(variant)));
}

std::string ConfigYaml(const Trace& trace, ConfigId config, uint64_t calls) {
  const Config parsed = ReadableConfig(trace.identity(config));
  return FormatYamlItem(parsed, {}, {"level: " + std::to_string(parsed.level), "calls: " + std::to_string(calls)});
}

nlohmann::ordered_json VariantJson(const Trace& trace, VariantId variant) {
  return ConfigToJson(ReadableConfig(trace.identity(trace.config_of(variant))), ReadableFacets(trace.facets(variant)));
}

namespace {

// Larger files are not read; no source file is that large.
constexpr int64_t kMaxSourceBytes = 16 << 20;

// The text of the first process that has it; null: none has.
const std::string* TextOfAny(const Trace& trace, std::optional<std::string> ProcessMetadata::* text) {
  for (const ProcessInfo& process : trace.processes()) {
    if ((process.known.*text).has_value()) return &*(process.known.*text);
  }
  return nullptr;
}

std::string_view LastPart(std::string_view text, char separator) { return text.substr(text.rfind(separator) + 1); }

std::string Text(std::string_view text) { return std::string(text); }

}  // namespace

const Choices<StackFormat>& StackFormats() {
  static const Choices<StackFormat> formats(
      "unknown form of stacks",
      {{"short", StackFormat::kShort}, {"full", StackFormat::kFull}, {"api", StackFormat::kApi}});
  return formats;
}

bool HasStacks(const Trace& trace) { return TextOfAny(trace, &ProcessMetadata::stacks) != nullptr; }

StackFormat StackFormatOf(const Trace& trace) {
  const std::string* const format = TextOfAny(trace, &ProcessMetadata::stack_format);
  return format == nullptr ? StackFormat::kShort : StackFormats().Parse(*format).value_or(StackFormat::kShort);
}

StackText::StackText(const Trace& trace) : stacks_(trace.stacks()) {
  if (const std::string* const folder = TextOfAny(trace, &ProcessMetadata::cwd)) {
    folder_ = *folder;
    if (!folder_.empty() && folder_.back() != '/') folder_ += '/';
  }
  for (const ProcessInfo& process : trace.processes()) {
    if (!process.known.origin_realtime_ns.has_value()) continue;
    const int64_t time = *process.known.origin_realtime_ns;
    started_ns_ = started_ns_ == 0 ? time : std::min(started_ns_, time);
  }
}

std::string StackText::File(std::string_view file) const { return Text(ShortSourcePath(file, folder_)); }

std::string StackText::Place(LineId line) const {
  const StackPlace& place = stacks_.line(line);
  return PlainLine(absl::StrCat(File(stacks_.code(place.code).file), ":", place.line));
}

std::string StackText::Line(LineId line) const {
  const StackCode& code = stacks_.code(stacks_.line(line).code);
  return absl::StrCat(Place(line), " in ", PlainLine(Text(code.function)));
}

std::string StackText::Frame(StackId stack, StackFormat format) {
  const StackPlace& place = stacks_.place(stack);
  const StackCode& code = stacks_.code(place.code);
  switch (format) {
    case StackFormat::kShort:
      return absl::StrCat(Text(LastPart(code.file, '/')), ":", place.line, " in ", Text(LastPart(code.function, '.')));
    case StackFormat::kFull: {
      std::string text = absl::StrCat("  File \"", Text(code.file), "\", line ", place.line, ", in ",
                                      Text(LastPart(code.function, '.')));
      if (const std::string source = SourceLine(code.file, place.line); !source.empty()) {
        absl::StrAppend(&text, "\n    ", source);
      }
      return text;
    }
    case StackFormat::kApi:
      break;
  }
  const std::string file = Text(LastPart(code.file, '/'));
  if (code.module.empty()) return absl::StrCat("<UnknownModule>.", file, ".", Text(code.function));
  if (code.module == "__main__") return absl::StrCat("__main__.", file, ".", Text(code.function));
  return absl::StrCat(Text(code.module), ".", Text(code.function));
}

std::vector<std::string> StackText::Frames(StackId stack, StackFormat format) {
  std::vector<std::string> frames;
  for (; stack != kNoStack && frames.size() < kMaxStackFrames; stack = stacks_.place(stack).caller) {
    frames.push_back(Frame(stack, format));
  }
  return frames;
}

std::string StackText::SourceLine(std::string_view file, uint32_t line) {
  auto source = sources_.find(file);
  if (source == sources_.end()) {
    source = sources_.emplace(Text(file), std::vector<std::string>()).first;
    // Relative paths start at the program's folder.
    const std::string path = file.empty() || file.front() == '/' ? Text(file) : folder_ + Text(file);
    struct stat is;
    if (stat(path.c_str(), &is) == 0 && S_ISREG(is.st_mode) && is.st_size <= kMaxSourceBytes &&
        (started_ns_ == 0 || int64_t{is.st_mtim.tv_sec} * 1'000'000'000 + is.st_mtim.tv_nsec <= started_ns_)) {
      std::ifstream stream(path);
      for (std::string text; std::getline(stream, text);) source->second.push_back(text);
    }
  }
  if (line == 0 || line > source->second.size()) return "";
  const std::string& text = source->second[line - 1];
  const size_t begin = text.find_first_not_of(" \t\r\f");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\f") + 1 - begin);
}

}  // namespace torchtrace
