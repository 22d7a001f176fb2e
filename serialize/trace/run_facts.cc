#include "serialize/trace/run_facts.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/json_member.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"

namespace torchtrace {
namespace {

using nlohmann::json;

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

// `3 processes that were started as new programs: /usr/bin/python3 (2, Python), /bin/sh`
std::string DescribeStarted(const std::map<std::string, StartedProgram>& started) {
  uint64_t count = 0;
  std::vector<std::string> programs;
  for (const bool python : {true, false}) {
    for (const auto& [program, each] : started) {
      if (each.python != python) continue;
      count += each.count;
      std::string text = program;
      if (each.count > 1 || python) {
        absl::StrAppend(&text, " (", each.count > 1 ? absl::StrCat(each.count) : "",
                        each.count > 1 && python ? ", " : "", python ? "Python" : "", ")");
      }
      programs.push_back(std::move(text));
    }
  }
  return absl::StrCat(
      count,
      count == 1 ? " process that was started as a new program: " : " processes that were started as new programs: ",
      absl::StrJoin(programs, ", "));
}

const json& Member(const json& object, const char* name) {
  static const json* const none = new json(nullptr);
  const json* const member = FindMember(object, name);
  return member == nullptr ? *none : *member;
}

void CountGetters(const json& metadata, const json& end, ProcessFacts* facts) {
  const auto count = [](const json& of) { return IntMember(of, "getters"); };
  const auto add = [facts](int64_t getters) { facts->getters += static_cast<uint64_t>(std::max<int64_t>(0, getters)); };
  if (const json& threads = Member(end, "threads"); threads.is_array()) {
    for (const json& thread : threads) add(count(thread).value_or(0));
  } else if (const std::optional<int64_t> all = count(end)) {
    add(*all);
  } else if (facts->signal.has_value()) {
    const json& levels = Member(metadata, "levels");
    const bool some_level =
        std::any_of(levels.begin(), levels.end(), [](const json& level) { return level != kDispatchLevel; });
    facts->getters_unknown = some_level && Member(metadata, "include_getters") != true;
  }
}

ProcessFacts GatherProcess(const ProcessInfo& process) {
  static const json* const none = new json(nullptr);
  const json& metadata = process.metadata == nullptr ? *none : *process.metadata;
  const json& end = Member(metadata, "end");
  const std::filesystem::path path(process.path);

  ProcessFacts facts;
  facts.log = path.parent_path().filename() == "log" ? "log/" + path.filename().string() : path.filename().string();
  facts.role = TextMember(metadata, "role");
  facts.exit_code = IntMember(end, "exit_code");
  facts.signal = IntMember(end, "signal");
  facts.program_goes_on = Member(end, "program_goes_on") == true;
  facts.paused = Member(metadata, "paused") == true;
  const std::optional<int64_t> began = IntMember(Member(metadata, "clock"), "origin_monotonic_ns");
  const std::optional<int64_t> ended = IntMember(end, "monotonic_ns");
  if (began && ended && *ended >= *began) facts.duration_ns = *ended - *began;
  CountGetters(metadata, end, &facts);
  facts.dropped = process.dropped;
  facts.cut = CountsMember(end, "cut");
  // What was told as it came is the least that there was.
  facts.not_seen = TextsMember(FindMember(end, "not_seen") != nullptr ? end : metadata, "not_seen");
  facts.started = StartedMember(FindMember(end, "started_programs") != nullptr ? end : metadata);
  facts.stopped = TextMember(end, "stopped");
  return facts;
}

void AddOnce(const std::string& text, std::vector<std::string>* texts) {
  if (std::find(texts->begin(), texts->end(), text) == texts->end()) texts->push_back(text);
}

bool IsCapped(const Value& value) {
  const uint64_t per_item = value.tag == ValueTag::kDict ? 2 : 1;
  const bool is_text = value.tag == ValueTag::kString || value.tag == ValueTag::kBytes;
  const bool is_long_int = value.tag == ValueTag::kBigInt && value.text.ends_with(" bits");
  if (value.tag == ValueTag::kDeep || is_long_int || (is_text && value.whole > value.text.size()) ||
      (IsContainer(value.tag) && value.whole > value.items.size() / per_item)) {
    return true;
  }
  return std::any_of(value.items.begin(), value.items.end(), IsCapped);
}

}  // namespace

RunFacts GatherFacts(const Trace& trace) {
  RunFacts facts;
  bool main_found = false;
  for (const ProcessInfo& process : trace.processes()) {
    ProcessFacts of_process = GatherProcess(process);
    if (!main_found && of_process.role == "main") {
      main_found = true;
      facts.main = facts.processes.size();
    }
    facts.calls += process.calls;
    facts.open_calls += process.open_calls;
    facts.getters += of_process.getters;
    facts.paused = facts.paused || of_process.paused;
    facts.getters_unknown = facts.getters_unknown || of_process.getters_unknown;
    for (const auto& [reason, count] : of_process.dropped) facts.dropped[reason] += count;
    for (const auto& [what, count] : of_process.cut) facts.cut[what] += count;
    for (const std::string& text : of_process.not_seen) AddOnce(text, &facts.not_seen);
    for (const auto& [program, started] : of_process.started) {
      StartedProgram& total = facts.started[program];
      total.count += started.count;
      total.python = total.python || started.python;
    }
    if (!of_process.stopped.empty()) AddOnce(of_process.stopped, &facts.stopped);
    if (!process.closed) ++facts.unclosed;
    if (!process.damage.sentences.empty()) facts.damaged = true;
    facts.lost_calls += process.damage.lost_calls;
    facts.lost_calls_exact = facts.lost_calls_exact && process.damage.lost_calls_exact;
    facts.processes.push_back(std::move(of_process));
  }
  if (!facts.started.empty()) facts.not_seen.push_back(DescribeStarted(facts.started));
  return facts;
}

CappedCounts CountCapped(const Trace& trace, const Statistics& statistics) {
  CappedCounts capped;
  for (ConfigId id = 0; id < statistics.config_calls.size(); ++id) {
    if (statistics.config_calls[id] == 0) continue;
    const absl::StatusOr<Config> config = ParseConfig(trace.identity(id));
    if (!config.ok()) continue;
    const bool is_capped = std::any_of(config->args.begin(), config->args.end(), IsCapped) ||
                           std::any_of(config->kwargs.begin(), config->kwargs.end(),
                                       [](const auto& kwarg) { return IsCapped(kwarg.second); });
    if (!is_capped) continue;
    ++capped.configs;
    capped.calls += statistics.config_calls[id];
  }
  return capped;
}

bool IsMerged(const Trace& trace) {
  const std::vector<ProcessInfo>& processes = trace.processes();
  return std::any_of(processes.begin(), processes.end(), [](const ProcessInfo& process) {
    return process.metadata != nullptr && FindMember(*process.metadata, "source") != nullptr;
  });
}

std::string ProcessName(const ProcessInfo& process) {
  std::string path, label;
  if (process.metadata != nullptr) {
    path = TextMember(*process.metadata, "source");
    label = TextMember(*process.metadata, "label");
  }
  if (path.empty()) path = process.path;
  std::filesystem::path file(path);
  if (file.extension() == ".gz") file = file.stem();
  const std::string name = file.stem().string();
  return label.empty() ? name : absl::StrCat(label, ":", name);
}

std::string DescribeEnd(const ProcessInfo& process) {
  if (!process.closed) return "not closed: killed or still running";
  const ProcessFacts facts = GatherProcess(process);
  if (facts.program_goes_on) return "trace closed, and the program went on";
  if (facts.signal.has_value()) {
    const char* const name =
        *facts.signal > 0 && *facts.signal < NSIG ? sigabbrev_np(static_cast<int>(*facts.signal)) : nullptr;
    return absl::StrCat("signal ", *facts.signal, name == nullptr ? "" : absl::StrCat(" (SIG", name, ")"));
  }
  if (facts.exit_code.has_value()) return absl::StrCat("exit code ", *facts.exit_code);
  return "closed without saying how the program ended";
}

}  // namespace torchtrace
