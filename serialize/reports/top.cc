#include "serialize/reports/top.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/clip_text.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/reports/reports.h"
#include "serialize/reports/shapes.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// The rows of tables without a screen.
constexpr size_t kPlainProcesses = 20;
constexpr size_t kPlainCalls = 10;
// Killed processes that the first line names.
constexpr size_t kMaxKilledNamed = 3;

enum class TopState : uint8_t { kRunning, kUnknown, kKilled, kEnded };

TopState StateOf(const LiveProcess& process) {
  if (process.info.closed) return TopState::kEnded;
  switch (process.running) {
    case Running::kYes:
      return TopState::kRunning;
    case Running::kNo:
      return TopState::kKilled;
    case Running::kUnknown:
      break;
  }
  return TopState::kUnknown;
}

struct ProcessRow {
  const LiveProcess* process = nullptr;
  std::string name;
  TopState state = TopState::kUnknown;
  const LiveThread* inside = nullptr;   // the thread of its open call; null: none is open
  std::optional<int64_t> open_ns = {};  // for how long, if that is known
};

struct CallRow {
  std::string name;
  uint64_t calls = 0;
  uint64_t self_ns = 0;
};

std::optional<int64_t> OpenFor(const LiveProcess& process, const LiveThread& thread) {
  const int64_t open_ns = std::max<int64_t>(0, process.until_ns - thread.entered_ns);
  // A process that was never seen running may have been in its last call for any time.
  const bool unknown = thread.identity.empty() || (open_ns == 0 && process.running != Running::kYes);
  return unknown ? std::nullopt : std::optional(open_ns);
}

// Of several threads the first: usually the program's main one.
ProcessRow MakeRow(const LiveProcess& process) {
  ProcessRow row = {.process = &process, .name = PlainLine(ProcessName(process.info)), .state = StateOf(process)};
  if (process.inside.empty()) return row;
  row.inside = &process.inside[0];
  row.open_ns = OpenFor(process, *row.inside);
  return row;
}

std::string PerSecond(uint64_t count, int64_t elapsed_ns) {
  if (elapsed_ns <= 0) return "-";
  std::string text = FormatAmount(static_cast<double>(count) * 1e9 / static_cast<double>(elapsed_ns));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

// Of all processes, by name.
absl::flat_hash_map<uint32_t, Activity> SumActivities(const std::vector<const LiveProcess*>& processes, bool modules) {
  absl::flat_hash_map<uint32_t, Activity> sums;
  for (const LiveProcess* const process : processes) {
    for (const Activity& activity : modules ? process->modules : process->apis) {
      Activity& sum = sums[activity.name];
      sum.name = activity.name;
      sum.calls += activity.calls;
      sum.self_ns += activity.self_ns;
    }
  }
  return sums;
}

// The rows of one reading that the options ask for.
class TopRows {
 public:
  TopRows(const LiveReading& reading, const LiveNames& names, const TopOptions& options)
      : reading_(reading), names_(names), options_(options) {
    for (const LiveProcess& process : reading.processes) {
      ProcessRow row = MakeRow(process);
      ++states_[static_cast<size_t>(row.state)];
      if (row.state == TopState::kKilled) killed_.push_back(row.name);
      calls_ += process.calls;
      counted_ += process.info.counted;
      rows_.push_back(std::move(row));
    }
    const auto passes = [&](const ProcessRow& row) { return row.name.find(options.filter) != std::string::npos; };
    filters_processes_ = options.filter.empty() || std::any_of(rows_.begin(), rows_.end(), passes);
    if (filters_processes_) std::erase_if(rows_, [&](const ProcessRow& row) { return !passes(row); });
    Sort();
  }

  const std::vector<ProcessRow>& processes() const { return rows_; }

  // `out: 4 running, 2 ended, 1 killed: rank 1 (42); 31.2 k calls/s`
  std::string Summary() const {
    std::vector<std::string> parts;
    const auto add = [&](TopState state, const char* what) {
      if (const size_t count = states_[static_cast<size_t>(state)]; count > 0) {
        parts.push_back(absl::StrCat(count, " ", what));
      }
    };
    add(TopState::kRunning, "running");
    add(TopState::kUnknown, "killed or still running");
    add(TopState::kEnded, "ended");
    if (!killed_.empty()) {
      const size_t named = std::min(killed_.size(), kMaxKilledNamed);
      parts.push_back(absl::StrCat(
          killed_.size(),
          " killed: ", absl::StrJoin(killed_.begin(), killed_.begin() + static_cast<ptrdiff_t>(named), ", "),
          named < killed_.size() ? ", ..." : ""));
    }
    if (parts.empty()) parts.emplace_back("no calls yet");
    std::string text = absl::StrCat(PlainLine(options_.title), ": ", absl::StrJoin(parts, ", "));
    if (reading_.elapsed_ns > 0) absl::StrAppend(&text, "; ", PerSecond(calls_, reading_.elapsed_ns), " calls/s");
    if (!reading_.order.empty()) absl::StrAppend(&text, "; ", reading_.order, " by torchtrace ctl");
    if (counted_ > 0) absl::StrAppend(&text, "; only counted: ", Counted(counted_, "call", "calls"));
    if (!reading_.unreadable.empty()) {
      absl::StrAppend(&text, "; ", Counted(reading_.unreadable.size(), "log", "logs"), " can't be read");
    }
    return ClipText(text, options_.width, 0);
  }

  // A line of titles and one for each process, the last column not clipped.
  std::vector<std::string> ProcessTable(size_t most) const {
    // Names may be long, and open calls need room, too.
    const size_t name_width = options_.width * 2 / 5;
    TextTable table({{"process", TextTable::kLeft},
                     {"calls/s"},
                     {"threads"},
                     {"log"},
                     {"open for"},
                     {"open call", TextTable::kLeft}});
    for (size_t i = 0; i < std::min(most, rows_.size()); ++i) {
      const ProcessRow& row = rows_[i];
      const LiveProcess& process = *row.process;
      table.AddRow({ClipText(row.name, name_width, 0), PerSecond(process.calls, reading_.elapsed_ns),
                    absl::StrCat(process.threads),
                    absl::StrCat(FormatAmount(static_cast<double>(process.info.file_bytes)), "B"),
                    row.open_ns.has_value() ? FormatDuration(*row.open_ns) : "-", OpenCallText(row)});
    }
    return Lines(table.Format(), rows_.size(), most);
  }

  // The same of APIs or modules.
  std::vector<std::string> CallTable(bool modules, size_t most) const {
    std::vector<CallRow> rows = CallRows(modules);
    uint64_t self_ns = 0;
    for (const CallRow& row : rows) self_ns += row.self_ns;
    if (!filters_processes_) {
      std::erase_if(rows, [this](const CallRow& row) { return row.name.find(options_.filter) == std::string::npos; });
    }
    TextTable table({{"calls/s"}, {"self time"}, {"self %"}, {modules ? "module" : "API", TextTable::kLeft}});
    for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
      const CallRow& row = rows[i];
      table.AddRow({PerSecond(row.calls, reading_.elapsed_ns), FormatDuration(static_cast<int64_t>(row.self_ns)),
                    FormatPercent(row.self_ns, self_ns), row.name});
    }
    return Lines(table.Format(), rows.size(), most);
  }

 private:
  void Sort() {
    const auto key = [this](const ProcessRow& row) {
      const LiveProcess& process = *row.process;
      uint64_t by = 0;
      switch (options_.processes_by) {
        case TopProcessSort::kRank:
          break;
        case TopProcessSort::kCalls:
          by = process.calls;
          break;
        case TopProcessSort::kOpen:
          by = static_cast<uint64_t>(row.open_ns.value_or(-1) + 1);
          break;
        case TopProcessSort::kLog:
          by = process.info.file_bytes;
          break;
      }
      return std::tuple(row.state == TopState::kEnded, UINT64_MAX - by);
    };
    std::stable_sort(rows_.begin(), rows_.end(),
                     [&](const ProcessRow& a, const ProcessRow& b) { return key(a) < key(b); });
  }

  std::vector<CallRow> CallRows(bool modules) const {
    std::vector<const LiveProcess*> processes;
    for (const ProcessRow& row : rows_) processes.push_back(row.process);
    std::vector<CallRow> rows;
    for (const auto& [name, sum] : SumActivities(processes, modules)) {
      rows.push_back({PlainLine(modules ? names_.Module(name) : names_.Api(name)), sum.calls, sum.self_ns});
    }
    std::sort(rows.begin(), rows.end(), [this](const CallRow& a, const CallRow& b) {
      const auto key = [this](const CallRow& row) {
        const uint64_t by = options_.calls_by == TopCallSort::kSelf    ? row.self_ns
                            : options_.calls_by == TopCallSort::kCalls ? row.calls
                                                                       : 0;
        return std::tuple<uint64_t, const std::string&>(UINT64_MAX - by, row.name);
      };
      return key(a) < key(b);
    });
    return rows;
  }

  std::string OpenCallText(const ProcessRow& row) const {
    if (row.state == TopState::kEnded) return DescribeEnd(row.process->info);
    std::string call = "-";
    if (row.inside != nullptr) {
      call = row.inside->identity.empty() ? "..." : FormatFoldedConfig(ReadableConfig(row.inside->identity));
      if (names_.has_levels() && !row.inside->identity.empty()) {
        call = absl::StrCat("L", ReadConfigHead(row.inside->identity).level, " ", call);
      }
    }
    if (row.state != TopState::kKilled) return call;
    return row.inside == nullptr ? "killed" : absl::StrCat("killed in ", call);
  }

  std::vector<std::string> Lines(std::string_view table, size_t rows, size_t most) const {
    std::vector<std::string> lines;
    for (size_t end = table.find('\n'); end != std::string_view::npos; end = table.find('\n')) {
      lines.push_back(ClipText(table.substr(0, end), options_.width, 0));
      table.remove_prefix(end + 1);
    }
    if (rows > most) lines.push_back(absl::StrCat("... and ", rows - most, " more"));
    return lines;
  }

  const LiveReading& reading_;
  const LiveNames& names_;
  const TopOptions& options_;
  std::vector<ProcessRow> rows_;
  size_t states_[4] = {};
  std::vector<std::string> killed_;
  uint64_t calls_ = 0;
  uint64_t counted_ = 0;  // of all, those that the logs don't list
  bool filters_processes_ = true;
};

}  // namespace

CallName LiveNames::Of(std::string_view identity) {
  const ConfigHead head = ReadConfigHead(identity);
  std::string key = absl::StrCat(head.level, " ", std::string(head.api));
  CallName name;
  const auto [api, fresh] = api_numbers_.try_emplace(std::move(key), static_cast<uint32_t>(apis_.size()));
  name.api = api->second;
  if (fresh) {
    levels_.insert(head.level);
    apis_.push_back({head.level, std::string(head.api)});
  }
  ModuleLabel label = ModuleLabelOf(identity);
  if (label.empty()) return name;
  const auto [module, is_new] = module_numbers_.try_emplace(label.WholeText(), static_cast<uint32_t>(modules_.size()));
  name.module = module->second;
  if (is_new) {
    several_models_.Add(label.model);
    modules_.push_back(std::move(label));
  }
  return name;
}

std::string LiveNames::Api(uint32_t name) const {
  const std::string text = FormatApi(apis_[name].name);
  return has_levels() ? absl::StrCat("L", apis_[name].level, " ", text) : text;
}

std::string LiveNames::Module(uint32_t name) const {
  return several_models_ ? modules_[name].WholeText() : modules_[name].Text();
}

bool MayGoOn(const LiveReading& reading) {
  return reading.processes.empty() ||
         std::any_of(reading.processes.begin(), reading.processes.end(), [](const LiveProcess& process) {
           const TopState state = StateOf(process);
           return state == TopState::kRunning || state == TopState::kUnknown;
         });
}

std::string TopText(const LiveReading& reading, const LiveNames& names, const TopOptions& options) {
  const TopRows rows(reading, names, options);
  std::string text = rows.Summary() + "\n";
  const auto add = [&text](const std::vector<std::string>& table) {
    if (table.size() > 1) absl::StrAppend(&text, "\n", absl::StrJoin(table, "\n"), "\n");
  };
  add(rows.ProcessTable(kPlainProcesses));
  if (reading.elapsed_ns == 0) return text;
  add(rows.CallTable(/*modules=*/false, kPlainCalls));
  if (names.has_modules()) add(rows.CallTable(/*modules=*/true, kPlainCalls));
  return text;
}

std::vector<std::string> TopLines(const LiveReading& reading, const LiveNames& names, const TopOptions& options,
                                  size_t height) {
  // The summary, and blank lines, titles and what was left out of two tables.
  constexpr size_t kAroundRows = 7;
  const TopRows rows(reading, names, options);
  const size_t room = height > kAroundRows ? height - kAroundRows : 0;
  const size_t processes = std::min(rows.processes().size(), std::max<size_t>(1, room / 2));
  std::vector<std::string> lines = {rows.Summary(), ""};
  const auto add = [&](const std::vector<std::string>& table) {
    lines.insert(lines.end(), table.begin(), table.end());
  };
  std::vector<std::string> table = rows.ProcessTable(processes);
  const size_t first_title = lines.size();
  add(table);
  lines.emplace_back();
  const size_t second_title = lines.size();
  const size_t left = height > lines.size() + 2 ? height - lines.size() - 2 : 0;
  if (reading.elapsed_ns > 0 && left > 0) add(rows.CallTable(options.modules, left));
  if (lines.size() > height) lines.resize(height);
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool title = i == 0 || i == first_title || i == second_title;
    if (options.color && title && !lines[i].empty()) lines[i] = absl::StrCat(kBold, lines[i], kReset);
  }
  return lines;
}

ordered_json TopJson(const LiveReading& reading, const LiveNames& names) {
  const auto rate = [&reading](uint64_t count) {
    return reading.elapsed_ns == 0
               ? ordered_json()
               : ordered_json(static_cast<double>(count) * 1e9 / static_cast<double>(reading.elapsed_ns));
  };
  ordered_json json = {{"elapsed_ns", reading.elapsed_ns}};
  if (!reading.order.empty()) json["order"] = reading.order;
  ordered_json& processes = json["processes"] = ordered_json::array();
  std::vector<const LiveProcess*> all;
  for (const LiveProcess& process : reading.processes) {
    const ProcessInfo& info = process.info;
    ordered_json one = {{"process", ProcessName(info)}};
    if (info.known.pid.has_value()) one["pid"] = *info.known.pid;
    if (info.known.ranked.rank.has_value()) one["rank"] = *info.known.ranked.rank;
    const TopState state = StateOf(process);
    one["running"] = state == TopState::kUnknown ? ordered_json() : ordered_json(state == TopState::kRunning);
    if (info.closed) one["ended"] = DescribeEnd(info);
    one["calls_per_second"] = rate(process.calls);
    one["calls"] = info.calls;
    one["threads"] = process.threads;
    one["log_bytes"] = info.file_bytes;
    one["open"] = ordered_json::array();
    for (const LiveThread& thread : process.inside) {
      ordered_json open = {{"thread", thread.number}, {"name", thread.name}, {"open_calls", thread.open_calls}};
      if (!thread.identity.empty()) {
        const ConfigHead head = ReadConfigHead(thread.identity);
        open["level"] = head.level;
        open["api"] = std::string(head.api);
        open["config"] = ConfigText(thread.identity);
        const std::optional<int64_t> open_ns = OpenFor(process, thread);
        open["open_ns"] = open_ns.has_value() ? ordered_json(*open_ns) : ordered_json();
      }
      one["open"].push_back(std::move(open));
    }
    processes.push_back(std::move(one));
    all.push_back(&process);
  }
  for (const bool modules : {false, true}) {
    std::vector<Activity> sorted;
    for (const auto& [name, sum] : SumActivities(all, modules)) sorted.push_back(sum);
    std::sort(sorted.begin(), sorted.end(), [](const Activity& a, const Activity& b) {
      return std::tuple(UINT64_MAX - a.self_ns, a.name) < std::tuple(UINT64_MAX - b.self_ns, b.name);
    });
    ordered_json& list = json[modules ? "modules" : "apis"] = ordered_json::array();
    for (const Activity& sum : sorted) {
      ordered_json one;
      if (modules) {
        one["module"] = names.Module(sum.name);
      } else {
        one["level"] = names.LevelOf(sum.name);
        one["api"] = names.NameOf(sum.name);
      }
      one["calls"] = sum.calls;
      one["self_ns"] = sum.self_ns;
      list.push_back(std::move(one));
    }
  }
  return json;
}

}  // namespace torchtrace
