#include "serialize/model/step_marks.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "serialize/base/monotonic_clock.h"

namespace torchtrace {
namespace {

constexpr const char* kNames[kStepKinds] = {"forward", "step", "tag"};

std::string Key(size_t kind, const char* more) { return std::string("\"@") + kNames[kind] + more + "\":"; }

// The number behind the key; nothing: the text doesn't have it.
std::optional<uint64_t> NumberAfter(std::string_view text, const std::string& key, size_t* at) {
  const size_t found = text.find(key);
  if (found == std::string_view::npos) return std::nullopt;
  uint64_t number = 0;
  if (std::from_chars(text.data() + found + key.size(), text.data() + text.size(), number).ec != std::errc()) {
    return std::nullopt;
  }
  *at = std::min(*at, found);
  return number;
}

}  // namespace

const char* StepKindName(StepKind kind) { return kNames[static_cast<size_t>(kind)]; }

StepMarks PossibleMarks(StepMarks marks) {
  for (StepMark& mark : marks.of) {
    if (mark.number == 0 || mark.begin_ns < 0 || mark.begin_ns > kMostMonotonicNs) mark = StepMark();
  }
  return marks;
}

std::string_view StepTagOf(std::string_view tags) {
  int depth = 0;
  size_t member = 1;  // where the member begins
  bool quoted = false;
  constexpr std::string_view kKey = "\"step\"";
  for (size_t i = 0; i < tags.size(); ++i) {
    const char c = tags[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    if (c == '{' || c == '[') ++depth;
    const bool ends = depth == 1 && (c == ',' || c == '}');
    if (c == '}' || c == ']') --depth;
    if (!ends) continue;
    std::string_view text = tags.substr(member, i - member);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    member = i + 1;
    if (!text.starts_with(kKey)) continue;
    text.remove_prefix(kKey.size());
    text.remove_prefix(std::min(text.find_first_not_of(": "), text.size()));
    return text;
  }
  return {};
}

std::string WithStepMarks(std::string_view tags, const StepMarks& marks) {
  std::string text(tags.substr(0, tags.rfind('}')));
  for (size_t i = 0; i < kStepKinds; ++i) {
    const StepMark& mark = marks.of[i];
    if (mark.number == 0) continue;
    text += text.empty() ? "{" : ",";
    text += Key(i, "") + std::to_string(mark.number) + "," + Key(i, "_ns") + std::to_string(mark.begin_ns);
  }
  return text.empty() ? text : text + "}";
}

StepMarks TakeStepMarks(std::string_view text, std::string* tags) {
  StepMarks marks;
  size_t first = text.size();
  if (text.find("\"@") != std::string_view::npos) {
    for (size_t i = 0; i < kStepKinds; ++i) {
      const std::optional<uint64_t> number = NumberAfter(text, Key(i, ""), &first);
      const std::optional<uint64_t> begin =
          number.has_value() ? NumberAfter(text, Key(i, "_ns"), &first) : std::nullopt;
      if (begin.has_value()) marks.of[i] = {*number, static_cast<int64_t>(*begin)};
    }
  }
  // The marks are the last members.
  *tags = text.substr(0, first);
  if (first == text.size()) return marks;
  if (!tags->empty()) tags->pop_back();
  if (!tags->empty()) *tags += '}';
  return PossibleMarks(marks);
}

}  // namespace torchtrace
