#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/command_name.h"
#include "serialize/base/files.h"
#include "serialize/base/json_member.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/log/log_metadata.h"
#include "serialize/model/graph_calls.h"
#include "serialize/model/levels.h"
#include "serialize/render/render.h"
#include "serialize/trace/run_facts.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// The order in which people look for things; the rest of the metadata follows.
constexpr std::array kFirstKeys = {"torchtrace",  "command",         "program",   "cwd",     "host",         "boot_id",
                                   "environment", "python",          "packages",  "dialect", "levels",       "include",
                                   "exclude",     "include_getters", "outermost", "stacks",  "stack_format", "rank",
                                   "world_size"};
// Keys that concern a single process, or are shown under another name.
constexpr std::array kProcessKeys = {
    "format", "role",   "pid",       "ppid", "forked_from",  "ancestors",        "clock",   "clock_again", "source",
    "label",  "damage", "operators", "end",  "process_name", "started_programs", "not_seen"};

template <typename Keys>
bool Contains(const Keys& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::string IsoTime(int64_t realtime_ns) {
  const std::time_t seconds = static_cast<std::time_t>(realtime_ns / 1'000'000'000);
  std::tm utc;
  char text[40];
  if (gmtime_r(&seconds, &utc) == nullptr || std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
    return "";
  return text;
}

void AddMetadata(const json& metadata, ordered_json* info) {
  if (!metadata.is_object()) return;
  for (const char* key : kFirstKeys) {
    if (const json* const value = FindMember(metadata, key); value != nullptr) (*info)[key] = *value;
  }
  for (const auto& [key, value] : metadata.items()) {
    if (!Contains(kFirstKeys, key) && !Contains(kProcessKeys, key)) (*info)[key] = value;
  }
  const json* const clock = FindMember(metadata, "clock");
  const json* const started = clock == nullptr ? nullptr : FindMember(*clock, "origin_realtime_ns");
  if (started == nullptr || !started->is_number_integer()) return;
  if (const std::string time = IsoTime(started->get<int64_t>()); !time.empty()) (*info)["started"] = time;
}

// The metadata that all processes of a merged trace have in common.
json CommonMetadata(const Trace& trace) {
  json common = json::object();
  bool first = true;
  for (const ProcessInfo& process : trace.processes()) {
    if (process.metadata == nullptr || !process.metadata->is_object()) return json::object();
    if (std::exchange(first, false)) {
      common = *process.metadata;
      common.erase("clock");
      continue;
    }
    for (auto member = common.begin(); member != common.end();) {
      const json* const value = FindMember(*process.metadata, member.key().c_str());
      member = value != nullptr && *value == *member ? std::next(member) : common.erase(member);
    }
  }
  return common;
}

// For a merged trace: the order of its processes, how they ended, missing ranks.
void AddMerged(const Trace& trace, ordered_json* info) {
  std::vector<ProcessClock> clocks;
  std::map<std::string, uint64_t> ends;
  uint64_t clocked = 0;
  for (const ProcessInfo& process : trace.processes()) {
    clocks.push_back(ReadProcessClock(process.metadata == nullptr ? json() : *process.metadata));
    ++ends[DescribeEnd(process)];
  }
  const ProcessOrder order = OrderProcesses(clocks);
  for (const std::vector<uint32_t>& group : order.groups) {
    if (order.clock != ProcessOrder::kNone && (group.size() > 1 || clocks[group[0]].known)) clocked += group.size();
  }
  static constexpr std::array kClocks = {"none", "monotonic", "time of day"};
  (*info)["order"] = ordered_json{
      {"clock", kClocks[order.clock]}, {"by_clock", clocked}, {"as_given", trace.processes().size() - clocked}};
  (*info)["ends"] = ends;
  ordered_json ranks = ordered_json::array();
  for (const RankGap& gap : FindRankGaps(trace.processes())) {
    ranks.push_back(ordered_json{{"label", gap.label.empty() ? ordered_json(nullptr) : ordered_json(gap.label)},
                                 {"world_size", gap.world_size},
                                 {"missing", gap.missing},
                                 {"duplicate", gap.duplicate}});
  }
  (*info)["incomplete_ranks"] = std::move(ranks);
}

void AddEnd(const ProcessInfo& process, ordered_json* json) {
  const ProcessMetadata& known = process.known;
  (*json)["ended"] = DescribeEnd(process);
  if (known.exit_code.has_value()) (*json)["exit_code"] = *known.exit_code;
  if (known.signal.has_value()) (*json)["signal"] = *known.signal;
  if (known.duration_ns.has_value()) (*json)["duration_ns"] = *known.duration_ns;
}

ordered_json CountsJson(const Statistics& statistics) {
  ordered_json levels = ordered_json::object();
  for (const auto& [level, count] : statistics.levels) {
    levels[std::to_string(level)] =
        ordered_json{{"calls", count.calls}, {"apis", count.apis}, {"configs", count.configs}};
  }
  return ordered_json{{"calls", statistics.calls},
                      {"apis", statistics.apis.size()},
                      {"configs", statistics.configs},
                      {"levels", std::move(levels)}};
}

ordered_json DamageJson(const Damage& damage) {
  return ordered_json{{"lost_calls", damage.lost_calls},
                      {"lost_calls_exact", damage.lost_calls_exact},
                      {"lost_bytes", damage.lost_bytes},
                      {"sentences", damage.sentences}};
}

ordered_json StartedJson(const std::map<std::string, StartedProgram>& programs) {
  ordered_json list = ordered_json::array();
  for (const auto& [program, started] : programs) {
    list.push_back(ordered_json{{"program", program}, {"python", started.python}, {"count", started.count}});
  }
  return list;
}

// Its path below the output folder: `log/main-1234.ttlog`.
std::string LogName(const ProcessInfo& process) {
  const std::filesystem::path path(process.path);
  const std::string name = path.filename().string();
  return path.parent_path().filename() == "log" ? "log/" + name : name;
}

// The pid of the nearest process with a log above a forked or started one; nullopt: there is none.
std::optional<int64_t> ParentOf(const ProcessInfo& child, const Trace& trace) {
  if (child.metadata == nullptr) return std::nullopt;
  const json* const forked_from = FindMember(*child.metadata, "forked_from");
  if (forked_from != nullptr && forked_from->is_number_integer()) return forked_from->get<int64_t>();
  const json* const ancestors = FindMember(*child.metadata, "ancestors");
  if (ancestors == nullptr || !ancestors->is_array()) return std::nullopt;
  for (const json& ancestor : *ancestors) {
    for (const ProcessInfo& process : trace.processes()) {
      const json* const pid = process.metadata != nullptr ? FindMember(*process.metadata, "pid") : nullptr;
      if (pid != nullptr && pid->is_number_integer() && *pid == ancestor && &process != &child &&
          process.known.source == child.known.source) {
        return pid->get<int64_t>();
      }
    }
  }
  return std::nullopt;
}

ordered_json ProcessJson(const ProcessInfo& process, const Trace& trace) {
  const ProcessMetadata& known = process.known;
  ordered_json json = ordered_json::object();
  json["log"] = LogName(process);
  json["name"] = UnlabelledName(process);
  for (const char* key : {"role", "pid", "ppid", "forked_from"}) {
    if (process.metadata == nullptr) break;
    if (const auto* const value = FindMember(*process.metadata, key); value != nullptr) json[key] = *value;
  }
  if (const std::optional<int64_t> parent = ParentOf(process, trace)) json["parent"] = *parent;
  if (known.ranked.rank.has_value()) json["rank"] = *known.ranked.rank;
  if (known.ranked.world_size.has_value()) json["world_size"] = *known.ranked.world_size;
  if (known.role == "child" || known.has_source) {
    for (const char* key : {"source", "label", "host", "command", "python", "packages"}) {
      if (const auto* const value = FindMember(*process.metadata, key); value != nullptr) json[key] = *value;
    }
  }
  AddEnd(process, &json);
  json["calls"] = process.calls;
  json["open_calls"] = process.open_calls;
  json["excluded_getters"] = known.getters;
  if (!known.windows.empty()) json["left_out"] = known.left_out;
  if (!known.left_out_unknown.empty()) json["left_out_exact"] = false;
  if (known.max_size != 0) json["only_counted"] = process.counted;
  json["bytes"] = ordered_json{
      {"file", process.file_bytes}, {"events", process.event_bytes}, {"definitions", process.definition_bytes}};
  ordered_json threads = ordered_json::array();
  for (const ThreadInfo& thread : process.threads) {
    threads.push_back(ordered_json{
        {"number", thread.number}, {"os_id", thread.os_id}, {"name", thread.name}, {"calls", thread.calls}});
  }
  json["threads"] = std::move(threads);
  json["dropped"] = process.dropped;
  json["cut"] = known.cut;
  json["not_seen"] = known.not_seen;
  json["started_programs"] = StartedJson(known.started);
  json["stopped"] = known.stopped.empty() ? ordered_json(nullptr) : ordered_json(known.stopped);
  json["damage"] = DamageJson(process.damage);
  return json;
}

// What torch.compile compiled, in the order of the first compilations; empty: nothing.
ordered_json GraphsJson(const Trace& trace, const Statistics& statistics) {
  ordered_json graphs = ordered_json::array();
  std::map<std::pair<std::string, std::string>, size_t> known;
  for (ConfigId id = 0; id < trace.config_count() && id < statistics.config_calls.size(); ++id) {
    const uint64_t calls = statistics.config_calls[id];
    if (calls == 0 || statistics.config_levels[id] != kFrameLevel) continue;
    const GraphCall call = ReadGraphCall(trace.identity(id));
    if (call.kind == GraphCallKind::kNone) continue;
    const auto [at, fresh] = known.try_emplace({call.id, call.function}, graphs.size());
    if (fresh) {
      graphs.push_back(ordered_json{{"graph", call.id},
                                    {"function", call.function},
                                    {"file", call.file},
                                    {"line", call.line},
                                    {"compilations", 0},
                                    {"runs", 0},
                                    {"backward_runs", 0},
                                    {"reasons", ordered_json::array()},
                                    {"breaks", ordered_json::array()}});
    }
    ordered_json& graph = graphs[at->second];
    const auto add = [&](const char* key) { graph[key] = graph[key].get<uint64_t>() + calls; };
    switch (call.kind) {
      case GraphCallKind::kCompilation:
        add("compilations");
        break;
      case GraphCallKind::kRun:
        add("runs");
        break;
      case GraphCallKind::kBackwardRun:
        add("backward_runs");
        break;
      case GraphCallKind::kRecompiled:
        graph["reasons"].push_back(call.reason);
        break;
      case GraphCallKind::kBreak:
        graph["breaks"].push_back(ordered_json{{"file", call.file}, {"line", call.line}, {"reason", call.reason}});
        break;
      default:
        break;
    }
  }
  return graphs;
}

// `3 strings, 1 list`
std::string JoinCounts(const std::map<std::string, uint64_t>& counts) {
  return absl::StrJoin(counts, ", ", [](std::string* out, const std::pair<const std::string, uint64_t>& entry) {
    absl::StrAppend(out, entry.second, " ", entry.first);
  });
}

}  // namespace

ordered_json BuildRunInfo(const Trace& trace, const Statistics& statistics, const RenderReport* report) {
  const RunFacts facts = GatherFacts(trace);
  const CappedCounts capped = CountCapped(trace, statistics);
  ordered_json info = ordered_json::object();
  if (IsMerged(trace)) {
    AddMetadata(CommonMetadata(trace), &info);
    AddMerged(trace, &info);
  } else if (!trace.processes().empty()) {
    const ProcessInfo& main = trace.processes()[facts.main];
    if (main.metadata != nullptr) AddMetadata(*main.metadata, &info);
    AddEnd(main, &info);
  }
  info["counts"] = CountsJson(statistics);
  info["open_calls"] = facts.open_calls;
  info["excluded_getters"] = facts.getters;
  if (!facts.windows.empty()) info["left_out"] = facts.left_out;
  if (!facts.left_out_unknown.empty()) info["left_out_exact"] = false;
  if (facts.counted != 0) info["only_counted"] = facts.counted;
  info["dropped"] = facts.dropped;
  info["capped"] = ordered_json{{"calls", capped.calls}, {"configs", capped.configs}};
  info["cut"] = facts.cut;
  info["not_seen"] = facts.not_seen;
  if (ordered_json graphs = GraphsJson(trace, statistics); !graphs.empty()) info["graphs"] = std::move(graphs);
  info["started_programs"] = StartedJson(facts.started);
  info["stopped"] = facts.stopped;
  info["damage"] = ordered_json{
      {"damaged", facts.damaged}, {"lost_calls", facts.lost_calls}, {"lost_calls_exact", facts.lost_calls_exact}};
  if (report != nullptr && report->listing_left_out) {
    info["not_rendered"] = ordered_json{{"files", "api_trace.*"}, {"command", report->listing_command}};
  }
  ordered_json processes = ordered_json::array();
  for (const ProcessInfo& process : trace.processes()) processes.push_back(ProcessJson(process, trace));
  info["processes"] = std::move(processes);
  return info;
}

absl::Status WriteRunInfo(const ordered_json& info, const std::string& folder, mode_t mode) {
  return WriteOutputFile((std::filesystem::path(folder) / "run.json").string(), DumpPrettyJson(info),
                         {.mode = mode, .follow = false});
}

namespace {

// The filters of the recording, as options: " --include torch.add". Empty: none, or the trace was merged or filtered.
std::string FiltersOf(const Trace& trace, size_t main) {
  if (IsMerged(trace) || trace.processes().empty() || trace.processes()[main].metadata == nullptr) return "";
  const json& metadata = *trace.processes()[main].metadata;
  if (FindMember(metadata, "filtered") != nullptr) return "";
  std::string filters;
  bool operators = false, others = false;
  for (const auto& [key, option] :
       {std::pair("include", "--include"), std::pair("exclude", "--exclude"),
        std::pair("frame_include", "--frame-include"), std::pair("frame_exclude", "--frame-exclude")}) {
    const json* const patterns = FindMember(metadata, key);
    if (patterns == nullptr || !patterns->is_array()) continue;
    for (const json& pattern : *patterns) {
      if (!pattern.is_string()) continue;
      const auto& text = pattern.get_ref<const std::string&>();
      absl::StrAppend(&filters, " ", option, " ", ShellQuote(text));
      if (std::string_view(key) == "include") (text.find("::") != std::string::npos ? operators : others) = true;
    }
  }
  const std::vector<int>& levels = trace.processes()[main].known.levels;
  const bool dispatch = std::find(levels.begin(), levels.end(), kDispatchLevel) != levels.end();
  if (operators && !others && !dispatch) absl::StrAppend(&filters, " (operators are calls of level 2: run -l 2)");
  if (others && !operators && dispatch && levels.size() == 1) {
    absl::StrAppend(&filters, " (calls of level 2 are operators: aten::add)");
  }
  return filters;
}

}  // namespace

std::vector<std::string> SummaryLines(const Trace& trace, const Statistics& statistics, const RenderReport* report,
                                      const std::string& folder) {
  const RunFacts facts = GatherFacts(trace);
  std::vector<std::string> lines;
  lines.push_back(absl::StrCat("the trace is in ", folder, ": ", Counted(statistics.calls, "call", "calls"), " of ",
                               Counted(statistics.apis.size(), "API", "APIs"), " in ",
                               Counted(statistics.configs, "config", "configs")));
  if (IsMerged(trace)) {
    for (const std::string& sentence : RankSentences(FindRankGaps(trace.processes()))) lines.push_back(sentence);
  }
  if (trace.processes().size() > 1) {
    std::string line = absl::StrCat("processes recorded: ", trace.processes().size());
    if (facts.unclosed > 0) absl::StrAppend(&line, ", of which killed or still running: ", facts.unclosed);
    lines.push_back(std::move(line));
  }
  for (const std::string& reason : facts.stopped) {
    lines.push_back(absl::StrCat("tracing stopped before the program's end: ", reason));
  }
  for (const auto& [reason, count] : facts.dropped) {
    lines.push_back(absl::StrCat("dropped: ", Counted(count, "call", "calls"), " (", reason, ")"));
  }
  if (facts.damaged || facts.lost_calls > 0) {
    lines.push_back(
        absl::StrCat("the log is damaged: ", CountLostCalls(facts.lost_calls, facts.lost_calls_exact), " lost"));
  }
  if (const CappedCounts capped = CountCapped(trace, statistics); capped.calls > 0) {
    lines.push_back(absl::StrCat("capped: long arguments of ", Counted(capped.calls, "call", "calls"), " in ",
                                 Counted(capped.configs, "config", "configs"), " are cut"));
  }
  if (!facts.cut.empty()) lines.push_back(absl::StrCat("cut: ", JoinCounts(facts.cut)));
  if (facts.left_out > 0) {
    lines.push_back(absl::StrCat("left out: ", Counted(facts.left_out, "call", "calls"), " (",
                                 absl::StrJoin(facts.windows, " and "), ")"));
  }
  if (facts.counted > 0) lines.push_back(CountedCalls(facts.counted));
  if (facts.getters > 0) {
    lines.push_back(absl::StrCat("left out: ", Counted(facts.getters, "call", "calls"),
                                 " of property getters (--include-getters keeps them)"));
  }
  if (facts.paused) lines.emplace_back("left out: any calls made while tracing was paused");
  if (!facts.step_windows.empty()) {
    lines.push_back(
        absl::StrCat("left out: any calls in steps that ", absl::StrJoin(facts.step_windows, " and "), " leaves out"));
  }
  for (const std::string& text : facts.not_seen) lines.push_back(absl::StrCat("not seen: ", text));
  if (report != nullptr && report->listing_left_out) {
    lines.push_back(
        absl::StrCat("the files that list every call were left out; to make them: ", report->listing_command));
  }
  if (statistics.calls == 0) {
    if (std::string filters = FiltersOf(trace, facts.main); !filters.empty()) {
      lines.push_back(absl::StrCat("no call matches", filters));
    }
  }
  lines.push_back(absl::StrCat("next: ", CommandName(), " stats ", ShellQuote(folder)));
  return lines;
}

}  // namespace torchtrace
