#include "serialize/trace/process_metadata.h"

#include <algorithm>

#include "nlohmann/json.hpp"
#include "serialize/base/json_member.h"
#include "serialize/model/levels.h"

namespace torchtrace {
namespace {

using nlohmann::json;

const json& Member(const json& object, const char* name) {
  static const json* const none = new json(nullptr);
  const json* const member = FindMember(object, name);
  return member == nullptr ? *none : *member;
}

std::optional<std::string> OptionalText(const json& object, const char* name) {
  const json& member = Member(object, name);
  return member.is_string() ? std::optional(member.get<std::string>()) : std::nullopt;
}

std::map<std::string, uint64_t> CountsMember(const json& object, const char* name) {
  std::map<std::string, uint64_t> counts;
  const json* const member = FindMember(object, name);
  if (member == nullptr || !member->is_object()) return counts;
  for (const auto& [what, count] : member->items()) {
    if (count.is_number_unsigned()) counts[what] = count.get<uint64_t>();
  }
  return counts;
}

std::vector<std::string> TextsMember(const json& object, const char* name) {
  std::vector<std::string> texts;
  const json* const member = FindMember(object, name);
  if (member == nullptr || !member->is_array()) return texts;
  for (const json& text : *member) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::map<std::string, StartedProgram> StartedMember(const json& object) {
  std::map<std::string, StartedProgram> started;
  const json* const list = FindMember(object, "started_programs");
  if (list == nullptr || !list->is_array()) return started;
  for (const json& each : *list) {
    const std::string program = TextMember(each, "program");
    const std::optional<int64_t> count = IntMember(each, "count");
    const json* const python = FindMember(each, "python");
    if (program.empty() || count.value_or(0) <= 0) continue;
    StartedProgram& total = started[program];
    total.count += static_cast<uint64_t>(*count);
    total.python = total.python || (python != nullptr && python->is_boolean() && python->get<bool>());
  }
  return started;
}

std::vector<int> NumbersMember(const json& object, const char* name) {
  std::vector<int> numbers;
  const json& member = Member(object, name);
  if (!member.is_array()) return numbers;
  for (const json& number : member) {
    if (number.is_number_integer()) numbers.push_back(number.get<int>());
  }
  return numbers;
}

// Of each package its version, or an object that tells it with more.
std::map<std::string, std::string, std::less<>> VersionsMember(const json& object, const char* name) {
  std::map<std::string, std::string, std::less<>> versions;
  const json& member = Member(object, name);
  if (!member.is_object()) return versions;
  for (const auto& [package, told] : member.items()) {
    const json& version = told.is_object() ? Member(told, "version") : told;
    if (version.is_string()) versions[package] = version.get<std::string>();
  }
  return versions;
}

void CountGetters(const json& metadata, const json& end, ProcessMetadata* known) {
  const auto add = [known](std::optional<int64_t> getters) {
    known->getters += static_cast<uint64_t>(std::max<int64_t>(0, getters.value_or(0)));
  };
  if (const json& threads = Member(end, "threads"); threads.is_array()) {
    for (const json& thread : threads) add(IntMember(thread, "getters"));
  } else if (const std::optional<int64_t> all = IntMember(end, "getters")) {
    add(all);
  } else if (known->signal.has_value()) {
    const json& levels = Member(metadata, "levels");
    const bool some_level =
        std::any_of(levels.begin(), levels.end(), [](const json& level) { return level != kDispatchLevel; });
    known->getters_unknown = some_level && Member(metadata, "include_getters") != true;
  }
}

}  // namespace

ProcessMetadata ParseProcessMetadata(const json& metadata) {
  ProcessMetadata known;
  known.role = TextMember(metadata, "role");
  known.host = TextMember(metadata, "host");
  known.pid = IntMember(metadata, "pid");
  known.rank = IntMember(metadata, "rank");
  known.cwd = OptionalText(metadata, "cwd");
  known.package_versions = VersionsMember(metadata, "packages");
  known.has_source = FindMember(metadata, "source") != nullptr;
  known.source = TextMember(metadata, "source");
  known.label = TextMember(metadata, "label");
  known.levels = NumbersMember(metadata, "levels");
  known.stacks = OptionalText(metadata, "stacks");
  known.stack_format = OptionalText(metadata, "stack_format");
  known.paused = Member(metadata, "paused") == true;

  const json& clock = Member(metadata, "clock");
  known.has_clock = FindMember(metadata, "clock") != nullptr;
  known.origin_realtime_ns = IntMember(clock, "origin_realtime_ns");

  const json& end = Member(metadata, "end");
  known.exit_code = IntMember(end, "exit_code");
  known.signal = IntMember(end, "signal");
  known.program_goes_on = Member(end, "program_goes_on") == true;
  known.stopped = TextMember(end, "stopped");
  const std::optional<int64_t> began = IntMember(clock, "origin_monotonic_ns");
  const std::optional<int64_t> ended = IntMember(end, "monotonic_ns");
  if (began && ended && *ended >= *began) known.duration_ns = *ended - *began;
  CountGetters(metadata, end, &known);
  known.cut = CountsMember(end, "cut");
  // What was told as it came is the least that there was.
  known.not_seen = TextsMember(FindMember(end, "not_seen") != nullptr ? end : metadata, "not_seen");
  known.started = StartedMember(FindMember(end, "started_programs") != nullptr ? end : metadata);
  return known;
}

}  // namespace torchtrace
