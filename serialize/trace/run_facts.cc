#include "serialize/trace/run_facts.h"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/model/config.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
nlohmann::json FormatOperators(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  std::map<std::string, std::string> spaces;
  for (const std::string& name : names) {
    const size_t colons = name.find("::");
    if (colons == std::string::npos) continue;
    std::string& inside = spaces[name.substr(0, colons)];
    if (!inside.empty()) inside += ' ';
    inside.append(name, colons + 2);
  }
  return spaces;
}

namespace {

// The most names in a sentence.
constexpr size_t kMaxNamed = 20;

}  // namespace

std::string NameRanks(const std::vector<int64_t>& ranks) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    ranges.push_back(last == i ? absl::StrCat(ranks[i])
                               : absl::StrCat(ranks[i], last == i + 1 ? ", " : "-", ranks[last]));
    i = last + 1;
  }
  std::string text = absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ");
  const size_t named = std::min(ranges.size(), kMaxNamed);
  for (size_t i = 0; i < named; ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", ranges[i]);
  if (named < ranges.size()) absl::StrAppend(&text, " and more");
  return text;
}

std::vector<RankGap> FindRankGaps(const std::vector<ProcessInfo>& processes) {
  struct Run {
    int64_t world_size = 0;
    std::map<int64_t, int> ranks;
  };
  std::map<std::string, Run> runs;  // by label
  for (const ProcessInfo& process : processes) {
    const auto& [rank, world_size] = process.known.ranked;
    if (!rank) continue;
    Run& run = runs[process.known.label];
    int& count = run.ranks[*rank];
    if (process.known.role != "fork" && process.known.role != "child") ++count;  // else it may be its parent's
    run.world_size = std::max(run.world_size, world_size.value_or(0));
  }
  std::vector<RankGap> gaps;
  for (const auto& [label, run] : runs) {
    RankGap gap;
    gap.label = label;
    gap.world_size = run.world_size;
    for (int64_t rank = 0; rank < run.world_size; ++rank) {
      if (run.ranks.count(rank) == 0) gap.missing.push_back(rank);
    }
    for (const auto& [rank, count] : run.ranks) {
      if (count > 1) gap.duplicate.push_back(rank);
    }
    if (!gap.missing.empty() || !gap.duplicate.empty()) gaps.push_back(std::move(gap));
  }
  return gaps;
}

std::vector<std::string> RankSentences(const std::vector<RankGap>& gaps) {
  std::vector<std::string> sentences;
  for (const RankGap& gap : gaps) {
    const std::string run = gap.label.empty() ? "" : absl::StrCat(" (", gap.label, ")");
    if (!gap.missing.empty()) {
      sentences.push_back(absl::StrCat(NameRanks(gap.missing), " of ", gap.world_size,
                                       gap.missing.size() == 1 ? " is missing" : " are missing", run));
    }
    if (!gap.duplicate.empty()) {
      sentences.push_back(absl::StrCat(NameRanks(gap.duplicate), gap.duplicate.size() == 1 ? " is" : " are",
                                       " there more than once", run));
    }
  }
  return sentences;
}

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

// What no process has imported: a process that a program starts may import what the program itself doesn't. Forked
// processes have what their parents imported, and don't say.
std::vector<std::string> NotImported(const std::vector<ProcessInfo>& processes) {
  std::vector<std::string> texts;
  bool first = true;
  for (const ProcessInfo& process : processes) {
    const std::vector<std::string>& own = process.known.not_imported;
    if (process.known.role == "fork") continue;
    if (std::exchange(first, false)) texts = own;
    std::erase_if(texts,
                  [&own](const std::string& text) { return std::find(own.begin(), own.end(), text) == own.end(); });
  }
  return texts;
}

// Steps that came in no process of a run: one that starts others needs none itself. Those others have logs only if some
// came.
std::vector<std::string> StepsNotSeen(const std::vector<ProcessInfo>& processes) {
  std::vector<std::string> texts;
  for (const ProcessInfo& process : processes) {
    const ProcessMetadata& known = process.known;
    const bool came = std::any_of(processes.begin(), processes.end(), [&known](const ProcessInfo& other) {
      return other.known.steps_not_seen.empty() && other.known.step_window == known.step_window &&
             other.known.label == known.label;
    });
    if (!known.steps_not_seen.empty() && !came) AddOnce(known.steps_not_seen, &texts);
  }
  return texts;
}

}  // namespace

std::string CountedCalls(uint64_t calls) {
  return absl::StrCat(Counted(calls, "call is", "calls are"),
                      " counted, but not listed (--max-size): without order, time, thread and outcome");
}

uint64_t CountOnlyCounted(const Trace& trace) {
  uint64_t counted = 0;
  for (const ProcessInfo& process : trace.processes()) counted += process.counted;
  return counted;
}

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
    if (!known.step_window.empty()) AddOnce(known.step_window, &facts.step_windows);
    for (const std::string& window : known.windows) AddOnce(window, &facts.windows);
    facts.left_out += known.left_out;
    facts.follow_only = facts.follow_only || known.follow_only;
    facts.counted += process.counted;
    if (process.counted > 0) facts.max_size = std::max(facts.max_size, known.max_size);
    if (facts.left_out_unknown.empty()) facts.left_out_unknown = known.left_out_unknown;
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
  for (const std::string& text : NotImported(trace.processes())) AddOnce(text, &facts.not_seen);
  for (const std::string& text : StepsNotSeen(trace.processes())) AddOnce(text, &facts.not_seen);
  if (!facts.started.empty()) facts.not_seen.push_back(DescribeStarted(facts.started));
  return facts;
}

std::vector<std::string> NotSeen(const Trace& trace, std::string_view begin) {
  std::vector<std::string> texts;
  for (const ProcessInfo& process : trace.processes()) {
    for (const std::string& text : process.known.not_seen) {
      if (text.starts_with(begin)) AddOnce(text, &texts);
    }
  }
  return texts;
}

std::string WhyNotSeen(const Trace& trace, std::string_view what) {
  const std::string begin = absl::StrCat(std::string(what), ": ");
  const std::vector<std::string> texts = NotSeen(trace, begin);
  return texts.empty() ? "" : texts[0].substr(begin.size());
}

CappedCounts CountCapped(const Trace& trace, const Statistics& statistics) {
  CappedCounts capped;
  for (ConfigId id = 0; id < statistics.config_calls.size(); ++id) {
    if (statistics.config_calls[id] == 0 || !HasCutArgument(trace.identity(id))) continue;
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

std::string_view UnlabelledName(const ProcessInfo& process) {
  if (!process.known.name.empty()) return process.known.name;
  std::string_view file = process.known.source.empty() ? process.path : process.known.source;
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
  if (file.ends_with(".gz")) file.remove_suffix(3);
  const size_t dot = file.rfind('.');
  return dot == 0 ? file : file.substr(0, dot);
}

std::string ProcessName(const ProcessInfo& process) {
  const std::string& label = process.known.label;
  return absl::StrCat(label, label.empty() ? "" : ":", std::string(UnlabelledName(process)));
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

Gaps FindGaps(const RunFacts& facts, const CappedCounts& capped, const std::vector<std::string>& ranks) {
  Gaps gaps;
  std::vector<std::string>& lost = gaps.lost;
  lost = ranks;
  for (const std::string& reason : facts.stopped) {
    lost.push_back(absl::StrCat("tracing stopped before the program's end: ", reason));
  }
  for (const auto& [reason, count] : facts.dropped) {
    lost.push_back(absl::StrCat(Counted(count, "call", "calls"), " dropped: ", reason));
  }
  if (facts.lost_calls > 0 || !facts.lost_calls_exact) {
    lost.push_back(
        absl::StrCat(CountLostCalls(facts.lost_calls, facts.lost_calls_exact), " lost to damage of the log"));
  }
  if (facts.unclosed > 0) {
    lost.push_back(absl::StrCat("logs not closed, of processes killed or still running: ", facts.unclosed, " of ",
                                facts.processes));
  }
  for (const std::string& text : facts.not_seen) gaps.not_seen.push_back(absl::StrCat("not seen: ", text));
  if (capped.calls > 0) {
    gaps.cut.push_back(absl::StrCat("long arguments of ", Counted(capped.calls, "call", "calls"), " in ",
                                    Counted(capped.configs, "config", "configs"), " are cut"));
  }
  for (const auto& [what, count] : facts.cut) gaps.cut.push_back(absl::StrCat("cut: ", count, " ", what));

  // Calls that are left out by the program, the user, or default.
  std::vector<std::string>& left_out = gaps.left_out;
  if (facts.paused) left_out.emplace_back("any calls made while tracing was paused, left out");
  if (!facts.step_windows.empty()) {
    left_out.push_back(
        absl::StrCat("any calls in steps that ", absl::StrJoin(facts.step_windows, " and "), " leaves out"));
  }
  if (facts.left_out > 0 || !facts.left_out_unknown.empty()) {
    left_out.push_back(absl::StrCat(facts.left_out > 0 ? Counted(facts.left_out, "call", "calls") : "any calls",
                                    " left out by ", absl::StrJoin(facts.windows, " and "),
                                    facts.left_out_unknown.empty() ? "" : "; not counted ", facts.left_out_unknown));
  }
  if (facts.follow_only) left_out.emplace_back("any calls of programs that --follow-only leaves out");
  if (facts.counted > 0) {
    left_out.push_back(absl::StrCat(Counted(facts.counted, "call", "calls"), " counted, but not listed, by --max-size ",
                                    FormatSize(static_cast<uint64_t>(facts.max_size))));
  }
  if (facts.getters > 0 || facts.getters_unknown) {
    left_out.push_back(absl::StrCat(facts.getters > 0 ? Counted(facts.getters, "call", "calls") : "any calls",
                                    " of property getters, left out by default (--include-getters records them)",
                                    facts.getters_unknown ? absl::StrCat("; not counted ", kDidNotEnd) : ""));
  }
  return gaps;
}

std::vector<std::string> DescribeCompleteness(const RunFacts& facts, const CappedCounts& capped,
                                              const std::vector<std::string>& ranks) {
  Gaps gaps = FindGaps(facts, capped, ranks);
  std::vector<std::string> lines = std::move(gaps.lost);
  for (const auto* more : {&gaps.not_seen, &gaps.cut}) lines.insert(lines.end(), more->begin(), more->end());
  if (lines.empty() && !gaps.left_out.empty()) gaps.left_out[0] = absl::StrCat("yes, but for ", gaps.left_out[0]);
  lines.insert(lines.end(), gaps.left_out.begin(), gaps.left_out.end());
  if (lines.empty()) lines.push_back("yes: no call was dropped, lost or cut");
  return lines;
}

}  // namespace torchtrace
