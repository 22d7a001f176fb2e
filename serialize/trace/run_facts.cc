#include "serialize/trace/run_facts.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

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
  facts.processes = trace.processes().size();
  bool main_found = false;
  for (size_t i = 0; i < trace.processes().size(); ++i) {
    const ProcessInfo& process = trace.processes()[i];
    const ProcessMetadata& known = process.known;
    if (!main_found && known.role == "main") {
      main_found = true;
      facts.main = i;
    }
    facts.calls += process.calls;
    facts.open_calls += process.open_calls;
    facts.getters += known.getters;
    facts.paused = facts.paused || known.paused;
    facts.getters_unknown = facts.getters_unknown || known.getters_unknown;
    for (const auto& [reason, count] : process.dropped) facts.dropped[reason] += count;
    for (const auto& [what, count] : known.cut) facts.cut[what] += count;
    for (const std::string& text : known.not_seen) AddOnce(text, &facts.not_seen);
    for (const auto& [program, started] : known.started) {
      StartedProgram& total = facts.started[program];
      total.count += started.count;
      total.python = total.python || started.python;
    }
    if (!known.stopped.empty()) AddOnce(known.stopped, &facts.stopped);
    if (!process.closed) ++facts.unclosed;
    if (!process.damage.sentences.empty()) facts.damaged = true;
    facts.lost_calls += process.damage.lost_calls;
    facts.lost_calls_exact = facts.lost_calls_exact && process.damage.lost_calls_exact;
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
  return std::any_of(processes.begin(), processes.end(),
                     [](const ProcessInfo& process) { return process.known.has_source; });
}

std::string ProcessName(const ProcessInfo& process) {
  const std::string& label = process.known.label;
  const std::string& path = process.known.source.empty() ? process.path : process.known.source;
  std::filesystem::path file(path);
  if (file.extension() == ".gz") file = file.stem();
  const std::string name = file.stem().string();
  return label.empty() ? name : absl::StrCat(label, ":", name);
}

std::string DescribeEnd(const ProcessInfo& process) {
  if (!process.closed) return "not closed: killed or still running";
  const ProcessMetadata& known = process.known;
  if (known.program_goes_on) return "trace closed, and the program went on";
  if (known.signal.has_value()) {
    const char* const name =
        *known.signal > 0 && *known.signal < NSIG ? sigabbrev_np(static_cast<int>(*known.signal)) : nullptr;
    return absl::StrCat("signal ", *known.signal, name == nullptr ? "" : absl::StrCat(" (SIG", name, ")"));
  }
  if (known.exit_code.has_value()) return absl::StrCat("exit code ", *known.exit_code);
  return "closed without saying how the program ended";
}

}  // namespace torchtrace
