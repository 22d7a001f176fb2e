#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/command_name.h"
#include "serialize/base/json_member.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/render/render.h"
#include "serialize/reports/reports.h"
#include "serialize/trace/run_facts.h"
#include "serialize/trace/statistics.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// Limits of the text for people; thousands of processes may have been merged.
constexpr size_t kMaxProcesses = 100;
constexpr size_t kMaxSentences = 200;

// Members of run.json that are shown unchanged.
struct Member {
  const char* label;
  const char* key;
};
constexpr Member kMembers[] = {
    {"folder", "cwd"},
    {"host", "host"},
    {"rank", "rank"},
    {"world size", "world_size"},
    {"torchtrace", "torchtrace"},
    {"python", "python"},
    {"packages", "packages"},
    {"levels", "levels"},
    {"include", "include"},
    {"exclude", "exclude"},
    {"stacks", "stacks"},
    {"started", "started"},
    {"ended", "ended"},
};

// A member of run.json for people; empty if there is nothing to show.
std::string Shown(const ordered_json& value) {
  if (value.is_null() || ((value.is_array() || value.is_object()) && value.empty())) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    return absl::StrJoin(value, ", ", [](std::string* out, const ordered_json& item) { out->append(Shown(item)); });
  }
  if (!value.is_object()) return DumpJson(value);
  std::string text;
  for (const auto& [name, member] : value.items()) {
    if (name == "version") continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, " ", Shown(member));
  }
  if (!value.contains("version")) return text;
  // {"version": "2.13.0", "git": "cf30"} is 2.13.0 (git cf30).
  return absl::StrCat(Shown(value["version"]), text.empty() ? "" : absl::StrCat(" (", text, ")"));
}

std::string ShownCommand(const ordered_json& command) {
  if (!command.is_array()) return Shown(command);
  return absl::StrJoin(command, " ", [](std::string* out, const ordered_json& word) {
    out->append(ShellQuote(word.is_string() ? word.get<std::string>() : DumpJson(word)));
  });
}

std::string ShownEnvironment(const ordered_json& environment) {
  std::string text;
  for (const auto& [name, value] : environment.items()) {
    if (!value.is_string()) continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", name, "=", ShellQuote(value.get<std::string>()));
  }
  return text;
}

std::string Size(uint64_t bytes) {
  if (bytes < 10'000) return absl::StrCat(bytes, " bytes");
  if (bytes < 10'000'000) return absl::StrFormat("%.1f kB", static_cast<double>(bytes) / 1e3);
  if (bytes < 10'000'000'000) return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
  return absl::StrFormat("%.1f GB", static_cast<double>(bytes) / 1e9);
}

class InfoReport {
 public:
  InfoReport(const Trace& trace, const Statistics& statistics)
      : trace_(trace),
        statistics_(statistics),
        info_(BuildRunInfo(trace, statistics, nullptr)),
        facts_(GatherFacts(trace)) {}

  std::string Json(const std::string& format) const {
    ordered_json info = info_;
    info["complete"] = Completeness();
    if (!format.empty()) info["format"] = format;
    return DumpPrettyJson(info);
  }

  std::string Text(const std::string& path, const std::string& format) {
    is_log_ = format.empty();
    Line("trace", path);
    Line("format", format);
    if (info_.contains("command")) Line("command", ShownCommand(info_["command"]));
    for (const auto& [label, key] : kMembers) {
      if (info_.contains(key)) Line(label, Shown(info_[key]));
    }
    if (info_.contains("environment")) Line("environment", ShownEnvironment(info_["environment"]));
    if (!trace_.processes().empty() && !IsMerged(trace_)) {
      if (const auto& duration = trace_.processes()[facts_.main].known.duration_ns; duration.has_value()) {
        Line("duration", FormatDuration(*duration));
      }
    }
    Order();
    Counts();
    Graphs(path);
    std::string label = "complete";
    for (const std::string& line : Completeness()) Line(std::exchange(label, ""), line);
    if (facts_.open_calls > 0) {
      Line("open", absl::StrCat(Counted(facts_.open_calls, "call", "calls"), " never returned (", CommandName(),
                                " info --open ", path == "-" ? path : ShellQuote(path), " shows them)"));
    }
    Processes();
    return std::move(text_);
  }

 private:
  void Line(const std::string& label, const std::string& value) {
    if (value.empty()) return;
    absl::StrAppend(&text_, label, std::string(label.size() < 13 ? 13 - label.size() : 1, ' '), PlainLine(value), "\n");
  }

  // Of a merged trace.
  void Order() {
    if (!info_.contains("order")) return;
    const ordered_json& order = info_["order"];
    std::string text;
    if (order["by_clock"] != 0)
      text = absl::StrCat("processes by the ", order["clock"] == "monotonic" ? "machine's clock" : "time of day");
    if (order["as_given"] != 0) {
      absl::StrAppend(&text, text.empty()
                                 ? "processes as given: they have no clock"
                                 : absl::StrCat(", but ", DumpJson(order["as_given"]), " without a clock as given"));
    }
    Line("order", text);
  }

  void Counts() {
    Line("calls", absl::StrCat(statistics_.calls));
    Line("APIs", absl::StrCat(statistics_.apis.size()));
    Line("configs", absl::StrCat(statistics_.configs));
    for (const auto& [level, count] : statistics_.levels) {
      Line(absl::StrCat("level ", level),
           absl::StrCat(Counted(count.calls, "call", "calls"), ", ", Counted(count.apis, "API", "APIs"), ", ",
                        Counted(count.configs, "config", "configs")));
    }
    uint64_t file_bytes = 0;
    uint64_t event_bytes = 0;
    for (const ProcessInfo& process : trace_.processes()) {
      file_bytes += process.file_bytes;
      event_bytes += process.event_bytes;
    }
    // Each call that is listed has two events, except those that never ended.
    const uint64_t events = 2 * (facts_.calls - facts_.counted) - facts_.open_calls;
    std::string size = Size(file_bytes);
    if (events > 0 && event_bytes > 0) {
      absl::StrAppend(&size, absl::StrFormat(", %.1f bytes per event",
                                             static_cast<double>(event_bytes) / static_cast<double>(events)));
    }
    Line(is_log_ ? "log" : "file", size);
  }

  // Of torch.compile.
  void Graphs(const std::string& path) {
    if (!info_.contains("graphs")) return;
    uint64_t compiled = 0, runs = 0, reasons = 0, breaks = 0;
    for (const ordered_json& graph : info_["graphs"]) {
      compiled += graph["compilations"].get<uint64_t>() > 0;
      runs += graph["runs"].get<uint64_t>();
      reasons += graph["reasons"].size();
      breaks += graph["breaks"].size();
    }
    Line("graphs",
         absl::StrCat(compiled, " compiled, ", reasons, " of them again, with ", Counted(breaks, "break", "breaks"),
                      " and ", Counted(runs, "run", "runs"), " (", CommandName(), " stats --by graph ",
                      path == "-" ? path : ShellQuote(path), " shows them)"));
  }

  // "yes ...", "no: ..." or "unknown: ...", and further lines.
  std::vector<std::string> Completeness() const {
    std::vector<std::string> ranks;
    if (IsMerged(trace_)) ranks = RankSentences(FindRankGaps(trace_.processes()));
    std::vector<std::string> lines = DescribeCompleteness(facts_, CountCapped(trace_, statistics_), ranks);
    const bool yes = lines[0].starts_with("yes");
    const std::string other = OtherThanComplete();
    if (yes && !other.empty()) lines[0] = other;
    if (!yes && !other.empty() && !other.starts_with("yes")) lines.insert(lines.begin(), other);
    return lines;
  }

  // The answer for traces whose missing calls are not counted: files of other tools, and results of `filter`. Empty for
  // other traces.
  std::string OtherThanComplete() const {
    std::set<std::string> ends;
    bool filtered = false;
    for (const ProcessInfo& process : trace_.processes()) {
      if (process.metadata == nullptr) continue;
      ends.insert(TextMember(*process.metadata, "file_end"));
      filtered = filtered || FindMember(*process.metadata, "filtered") != nullptr;
    }
    if (ends.contains("cut")) return "no: the file ends in the middle";
    if (filtered) return "no: torchtrace filter made it from another trace";
    if (ends.contains("unknown")) return "unknown: such a file doesn't say whether it is complete";
    return ends.contains("whole") ? "yes: the file is whole; what its writer lost isn't known" : "";
  }

  // Members of run.json's processes, for merged traces.
  static std::string MemberOf(const ordered_json& process, const char* key) {
    return process.contains(key) ? Shown(process[key]) : "";
  }

  void Processes() {
    const bool merged = IsMerged(trace_);
    std::vector<TextTable::Column> columns = {{"process", TextTable::kLeft}};
    const auto add_column = [&columns](const char* title, TextTable::Align align = TextTable::kRight) {
      columns.push_back({title, align});
    };
    if (merged) {
      add_column("label", TextTable::kLeft);
      add_column("rank");
    }
    for (const char* const title : {"calls", "never returned", "threads", "log"}) add_column(title);
    add_column("ended", TextTable::kLeft);
    if (merged) add_column("source", TextTable::kLeft);
    TextTable table(columns);
    const std::vector<ProcessInfo>& processes = trace_.processes();
    const size_t shown = processes.size() > kMaxProcesses ? kMaxProcesses : processes.size();
    for (size_t i = 0; i < shown; ++i) {
      const ProcessInfo& process = processes[i];
      const ordered_json& json = info_["processes"][i];
      std::vector<std::string> row = {ProcessName(process)};
      if (merged) row.insert(row.end(), {MemberOf(json, "label"), MemberOf(json, "rank")});
      row.insert(row.end(), {absl::StrCat(process.calls), absl::StrCat(process.open_calls),
                             absl::StrCat(process.threads.size()), Size(process.file_bytes), DescribeEnd(process)});
      if (merged) row.push_back(MemberOf(json, "source"));
      table.AddRow(row);
    }
    absl::StrAppend(&text_, "\n", table.Format());
    if (shown < processes.size()) {
      absl::StrAppend(&text_, "and ", processes.size() - shown, " more processes (--format json lists all)\n");
    }
    size_t sentences = 0;
    for (const ProcessInfo& process : processes) {
      for (const std::string& sentence : process.damage.sentences) {
        if (++sentences > kMaxSentences) continue;
        absl::StrAppend(&text_, "damage in ", PlainLine(ProcessName(process)), ": ", PlainLine(sentence), "\n");
      }
    }
    if (sentences > kMaxSentences) {
      absl::StrAppend(&text_, "and ", sentences - kMaxSentences, " more places of damage (--format json)\n");
    }
  }

  const Trace& trace_;
  const Statistics& statistics_;
  const ordered_json info_;
  const RunFacts facts_;
  std::string text_;
  bool is_log_ = true;
};

}  // namespace

absl::Status WriteInfo(Trace* trace, const std::string& path, const InfoOptions& options, std::ostream* out) {
  const absl::StatusOr<Statistics> statistics = CountCalls(trace, ApiOrder::kNone);
  if (!statistics.ok()) return statistics.status();
  InfoReport report(*trace, *statistics);
  *out << (options.json ? report.Json(options.format) : report.Text(path, options.format));
  out->flush();
  return out->good() ? absl::OkStatus() : absl::AbortedError("cannot write the report");
}

}  // namespace torchtrace
