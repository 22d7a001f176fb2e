
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/clip_text.h"
#include "serialize/base/monotonic_clock.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/reports/collectives.h"
#include "serialize/reports/reports.h"
#include "serialize/trace/collective_traits.h"
#include "serialize/trace/run_facts.h"
#include "serialize/trace/running.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// The most threads without an open call to list for a process.
constexpr size_t kMaxIdleThreads = 8;

class OpenCallsReport {
 public:
  OpenCallsReport(Trace* trace, const OpenCallsOptions& options)
      : trace_(trace), options_(options), stack_text_(*trace), collectives_(trace) {}

  absl::Status Read() {
    absl::Status read = trace_->Read([this](const CallRecord& record) -> absl::Status {
      last_ns_[record.process] = record.time_ns;
      collectives_.Take(record);
      levels_.insert(record.level);
      Thread& thread = threads_[{record.process, record.thread}];
      std::vector<CallRecord>& open = thread.open;
      if (record.kind == CallRecord::kEnter) {
        // Calls at this depth and deeper have ended; their ends are missing.
        while (!open.empty() && open.back().depth >= record.depth) open.pop_back();
        open.push_back(record);
        return absl::OkStatus();
      }
      while (!open.empty() && open.back().call > record.call) open.pop_back();
      if (open.empty() || open.back().call != record.call) return absl::OkStatus();
      thread.last = open.back();
      thread.last_ended_ns = record.time_ns;
      thread.last_raised = record.kind == CallRecord::kRaise;
      open.pop_back();
      return absl::OkStatus();
    });
    now_ns_ = MonotonicNowNs();
    ProcessTable processes;
    for (const ProcessInfo& process : trace_->processes()) running_.push_back(IsRunning(process, &processes));
    return read;
  }

  std::string Text() {
    std::string text;
    AppendCollectives(&text);
    const size_t collectives = text.size();
    size_t ended = 0;
    for (uint32_t i = 0; i < trace_->processes().size(); ++i) {
      const ProcessInfo& process = trace_->processes()[i];
      const Running running = running_[i];
      const bool any_open = std::any_of(threads_.begin(), threads_.end(), [i](const auto& thread) {
        return thread.first.first == i && !thread.second.open.empty();
      });
      if (process.closed && !any_open) {
        ++ended;
        continue;
      }
      if (!text.empty()) text += "\n";
      absl::StrAppend(&text, ProcessText(process, running), "\n");
      AppendThreads(i, running, &text);
    }
    if (text.size() == collectives) {
      const bool one_goes_on = std::any_of(trace_->processes().begin(), trace_->processes().end(),
                                           [](const ProcessInfo& process) { return process.known.program_goes_on; });
      absl::StrAppend(&text, text.empty() ? "" : "\n", "no call is open: ",
                      one_goes_on ? "the trace ended before the program\n" : "every process has ended\n");
    } else if (ended > 0) {
      absl::StrAppend(&text, "\n", Counted(ended, "process has", "processes have"), " ended, without an open call\n");
    }
    return text;
  }

  ordered_json Json() {
    ordered_json processes = ordered_json::array();
    for (uint32_t i = 0; i < trace_->processes().size(); ++i) {
      const ProcessInfo& process = trace_->processes()[i];
      const Running running = running_[i];
      ordered_json json = {{"process", ProcessName(process)}};
      if (process.known.pid.has_value()) json["pid"] = *process.known.pid;
      if (process.known.ranked.rank.has_value()) json["rank"] = *process.known.ranked.rank;
      json["running"] = running == Running::kUnknown ? ordered_json() : ordered_json(running == Running::kYes);
      json["threads"] = ordered_json::array();
      for (const auto& [key, thread] : threads_) {
        if (key.first != i) continue;
        ordered_json one = {{"thread", key.second}, {"name", ThreadName(process, key.second)}};
        one["open"] = ordered_json::array();
        for (const CallRecord& call : thread.open) {
          ordered_json open = CallJson(call);
          open["open_ns"] = EndOf(i, running) - call.time_ns;
          one["open"].push_back(std::move(open));
        }
        if (thread.last.has_value()) {
          one["last_ended"] = CallJson(*thread.last);
          one["last_ended"]["raised"] = thread.last_raised;
          one["last_ended"]["ended_ns_ago"] = EndOf(i, running) - thread.last_ended_ns;
        }
        json["threads"].push_back(std::move(one));
      }
      processes.push_back(std::move(json));
    }
    ordered_json json = {{"processes", std::move(processes)}};
    for (const CollectiveProgress& progress : collectives_.Compare()) {
      json["collectives"].push_back(CollectiveJson(progress));
    }
    return json;
  }

 private:
  struct Thread {
    std::vector<CallRecord> open;    // outermost first
    std::optional<CallRecord> last;  // the last call that ended
    int64_t last_ended_ns = 0;
    bool last_raised = false;
  };

  // The innermost open call of the first thread that has one, or null.
  const CallRecord* InnermostOf(uint32_t process) const {
    for (auto at = threads_.lower_bound({process, 0}); at != threads_.end() && at->first.first == process; ++at) {
      if (!at->second.open.empty()) return &at->second.open.back();
    }
    return nullptr;
  }

  std::string ApiOf(const CallRecord& call) const {
    return FormatApi(ReadConfigHead(trace_->identity(call.config)).api);
  }

  // `default group: ranks 0, 2 wait for rank 1`, and a line for each rank.
  void AppendCollectives(std::string* text) const {
    for (const CollectiveProgress& progress : collectives_.Compare()) {
      if (!text->empty()) *text += "\n";
      if (!progress.label.empty()) absl::StrAppend(text, PlainLine(progress.label), ": ");
      absl::StrAppend(text, "collectives of ",
                      progress.group == kDefaultGroup   ? "the default group"
                      : progress.group == kUnnamedGroup ? "unknown groups"
                                                        : absl::StrCat("group ", PlainLine(progress.group)));
      if (progress.differ.has_value()) {
        absl::StrAppend(text, ": from number ", *progress.differ, " on ranks call different ones");
      } else if (const std::vector<int64_t> waiting = progress.Waiting(); !waiting.empty()) {
        absl::StrAppend(text, ": ", NameRanks(waiting), waiting.size() == 1 ? " waits for " : " wait for ",
                        NameRanks(progress.Awaited()));
      }
      TextTable table({{"rank"}, {"number"}, {"last", TextTable::kLeft}, {"", TextTable::kLeft}});
      for (const RankProgress& rank : progress.ranks) {
        table.AddRow({absl::StrCat(rank.rank), absl::StrCat(rank.entered),
                      rank.last.empty() ? "-" : FormatApi(rank.last), WhereItIs(rank)});
      }
      absl::StrAppend(text, "\n", table.Format());
    }
  }

  // `open for 2.69 s`; `ended 2.70 s ago; in __main__.work for 3.44 s`; `ended before that; exit code 1`
  std::string WhereItIs(const RankProgress& rank) const {
    const ProcessInfo& process = trace_->processes()[rank.process];
    const Running running = running_[rank.process];
    const int64_t end_ns = EndOf(rank.process, running);
    std::vector<std::string> parts;
    if (!rank.last.empty()) {
      const std::string time = FormatDuration(std::max<int64_t>(0, end_ns - rank.time_ns));
      parts.push_back(rank.open ? absl::StrCat("open for ", time) : absl::StrCat("ended ", time, " ago"));
    }
    const CallRecord* const inside = InnermostOf(rank.process);
    if (!rank.open && inside != nullptr) {
      parts.push_back(
          absl::StrCat("in ", ApiOf(*inside), " for ", FormatDuration(std::max<int64_t>(0, end_ns - inside->time_ns))));
    } else if (!rank.open) {
      parts.emplace_back("in no recorded call");
    }
    if (running != Running::kYes) parts.push_back(StateOf(process, running));
    return absl::StrJoin(parts, "; ");
  }

  ordered_json CollectiveJson(const CollectiveProgress& progress) {
    ordered_json json;
    if (!progress.label.empty()) json["label"] = progress.label;
    json["group"] = progress.group == kDefaultGroup   ? ordered_json("default")
                    : progress.group == kUnnamedGroup ? ordered_json()
                                                      : ordered_json(progress.group);
    json["waiting"] = progress.Waiting();
    json["for"] = progress.Awaited();
    json["differ_from"] = progress.differ.has_value() ? ordered_json(*progress.differ) : ordered_json();
    json["ranks"] = ordered_json::array();
    for (const RankProgress& rank : progress.ranks) {
      const Running running = running_[rank.process];
      ordered_json one = {{"rank", rank.rank}, {"number", rank.entered}};
      if (!rank.last.empty()) {
        one["api"] = rank.last;
        one[rank.open ? "open_ns" : "ended_ns_ago"] = EndOf(rank.process, running) - rank.time_ns;
      }
      if (const CallRecord* const inside = InnermostOf(rank.process); inside != nullptr) {
        one["inside"] = CallJson(*inside);
      }
      json["ranks"].push_back(std::move(one));
    }
    return json;
  }

  // The time until which open calls are known to have been open.
  int64_t EndOf(uint32_t process, Running running) const {
    const auto last = last_ns_.find(process);
    const int64_t last_ns = last == last_ns_.end() ? 0 : last->second;
    return running == Running::kYes ? std::max(now_ns_, last_ns) : last_ns;
  }

  static std::string ProcessText(const ProcessInfo& process, Running running) {
    std::string text = PlainLine(ProcessName(process));
    if (running == Running::kYes) return absl::StrCat(text, ": running");
    return absl::StrCat(text, ": ", StateOf(process, running), "; times are up to its last record");
  }
  static std::string StateOf(const ProcessInfo& process, Running running) {
    return process.closed ? DescribeEnd(process) : running == Running::kNo ? "killed" : "killed or still running";
  }

  static std::string ThreadName(const ProcessInfo& process, uint32_t number) {
    const ThreadInfo* const thread = FindThread(process, number);
    return thread == nullptr ? "" : thread->name;
  }

  void AppendThreads(uint32_t process, Running running, std::string* text) {
    std::vector<std::pair<uint32_t, const Thread*>> idle;
    for (const auto& [key, thread] : threads_) {
      if (key.first != process) continue;
      if (thread.open.empty()) {
        idle.emplace_back(key.second, &thread);
        continue;
      }
      absl::StrAppend(text, "  ", ThreadText(process, key.second), ": ",
                      Counted(thread.open.size(), "open call", "open calls"), "\n");
      AppendOpenCalls(thread, EndOf(process, running), text);
    }
    std::stable_sort(idle.begin(), idle.end(),
                     [](const auto& a, const auto& b) { return a.second->last_ended_ns > b.second->last_ended_ns; });
    for (size_t i = 0; i < std::min(idle.size(), kMaxIdleThreads); ++i) {
      const auto& [number, thread] = idle[i];
      absl::StrAppend(text, "  ", ThreadText(process, number), ": no open call");
      if (thread->last.has_value()) {
        const int64_t ago = EndOf(process, running) - thread->last_ended_ns;
        absl::StrAppend(text, "; the last one ", thread->last_raised ? "raised " : "returned ", FormatDuration(ago),
                        running == Running::kYes ? " ago" : " before that", ":\n",
                        CallLine(*thread->last, 0, "", LeadWidths{}));
        continue;
      }
      *text += "\n";
    }
    if (idle.size() > kMaxIdleThreads) {
      absl::StrAppend(text, "  ", Counted(idle.size() - kMaxIdleThreads, "more thread", "more threads"),
                      " without an open call\n");
    }
  }

  std::string ThreadText(uint32_t process, uint32_t number) const {
    const std::string name = ThreadName(trace_->processes()[process], number);
    return PlainLine(absl::StrCat("thread ", number, name.empty() ? "" : absl::StrCat(" (", name, ")")));
  }

  // Widths of the columns before a call, to align several lines.
  struct LeadWidths {
    size_t number = 0;
    size_t place = 0;
  };

  void AppendOpenCalls(const Thread& thread, int64_t end_ns, std::string* text) {
    LeadWidths widths;
    for (const CallRecord& call : thread.open) {
      widths.number = std::max(widths.number, std::to_string(call.call).size());
      widths.place = std::max(widths.place, PlaceOf(call).size());
    }
    StackId stack = kNoStack;  // the innermost
    for (size_t i = 0; i < thread.open.size(); ++i) {
      const CallRecord& call = thread.open[i];
      const int64_t open_ns = std::max<int64_t>(0, end_ns - call.time_ns);
      *text += CallLine(call, i, end_ns == 0 ? "" : absl::StrCat("  open for ", FormatDuration(open_ns)), widths);
      if (call.stack != kNoStack) stack = call.stack;
    }
    for (const std::string& frame : stack_text_.Frames(stack, StackFormat::kShort)) {
      absl::StrAppend(text, "        ", PlainLine(frame), "\n");
    }
  }

  std::string PlaceOf(const CallRecord& call) const {
    return call.stack == kNoStack ? "" : stack_text_.Place(trace_->stacks().calling_line(call.stack));
  }

  // `    12  L1  model.py:31    torch.relu(...)  open for 3.1 s`
  std::string CallLine(const CallRecord& call, size_t indent, const std::string& ending, const LeadWidths& widths) {
    const auto padded = [](std::string text, size_t width) {
      return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
    };
    const std::string number = std::to_string(call.call);
    std::string line =
        absl::StrCat("    ", std::string(std::max(widths.number, number.size()) - number.size(), ' '), number, "  ");
    if (levels_.size() > 1) absl::StrAppend(&line, "L", call.level, "  ");
    if (const std::string place = padded(PlaceOf(call), widths.place); !place.empty()) {
      absl::StrAppend(&line, place, "  ");
    }
    line += std::string(2 * std::min<size_t>(indent, 50), ' ');
    const std::string config = FoldedConfigText(*trace_, call.config);
    return absl::StrCat(line, ClipText(config, options_.width, CountCharacters(line) + ending.size()), ending, "\n");
  }

  ordered_json CallJson(const CallRecord& call) {
    const ConfigHead head = ReadConfigHead(trace_->identity(call.config));
    ordered_json json = {{"call", call.call},
                         {"level", call.level},
                         {"api", std::string(head.api)},
                         {"config", ConfigText(*trace_, call.config)}};
    if (call.stack == kNoStack) return json;
    const StackTable& stacks = trace_->stacks();
    const StackPlace& line = stacks.line(stacks.calling_line(call.stack));
    json["file"] = std::string(stacks.code(line.code).file);
    json["line"] = line.line;
    json["function"] = std::string(stacks.code(line.code).function);
    json["stack"] = stack_text_.Frames(call.stack, StackFormat::kShort);
    return json;
  }

  Trace* const trace_;
  const OpenCallsOptions& options_;
  StackText stack_text_;
  std::map<std::pair<uint32_t, uint32_t>, Thread> threads_;  // by process and thread
  std::map<uint32_t, int64_t> last_ns_;                      // by process: its last record
  std::set<uint8_t> levels_;                                 // of calls
  CollectiveCalls collectives_;
  int64_t now_ns_ = 0;
  std::vector<Running> running_;  // by process
};

}  // namespace

absl::Status WriteOpenCalls(Trace* trace, const OpenCallsOptions& options, std::ostream* out) {
  OpenCallsReport report(trace, options);
  if (absl::Status s = report.Read(); !s.ok()) return s;
  *out << (options.json ? DumpPrettyJson(report.Json()) : report.Text());
  out->flush();
  return out->good() ? absl::OkStatus() : absl::AbortedError("cannot write the report");
}

}  // namespace torchtrace
