#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/reports/reports.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

constexpr char kDim[] = "\x1b[2m";
constexpr char kRed[] = "\x1b[31m";
constexpr char kReset[] = "\x1b[0m";
// Wider calling lines stand out of their column.
constexpr size_t kMaxLineWidth = 40;

// A shown call from its entry on.
struct Shown {
  CallRecord entry;
  uint32_t indent = 0;  // calls around it that are shown
  bool ended = false;
  bool raised = false;
  bool early = false;  // its line was written before its end was known
  int64_t duration_ns = 0;
  std::string exception;
};

class Dump {
 public:
  Dump(Trace* trace, const DumpOptions& options, std::ostream* out)
      : trace_(trace),
        options_(options),
        out_(out),
        has_stacks_(HasStacks(*trace)),
        stack_text_(*trace),
        text_([trace](uint32_t config) { return ConfigText(*trace, config); }),
        json_([trace](uint32_t variant) {
          // Without its braces, to be put among a call's other members.
          const std::string object = DumpJson(VariantJson(*trace, variant));
          return object.substr(1, object.size() - 2);
        }) {}

  absl::StatusOr<uint64_t> Run() {
    const absl::Status finished = absl::CancelledError();
    const uint64_t last = LastCall();
    const absl::Status read = trace_->Read([&](const CallRecord& call) -> absl::Status {
      if (call.kind == CallRecord::kEnter) {
        if (call.call > last && open_.empty()) return finished;
        Enter(call);
      } else {
        End(call);
      }
      return out_->good() ? absl::OkStatus() : absl::AbortedError("cannot write the dump");
    });
    if (!read.ok() && read != finished) return read;
    // What is still open never returned.
    while (!waiting_.empty()) WriteFirst(/*more_follows=*/false);
    for (const auto& [number, call] : open_) {
      if (call->early) WriteEnd(*call);
    }
    out_->flush();
    if (!out_->good()) return absl::AbortedError("cannot write the dump");
    return shown_;
  }

 private:
  // That may be shown.
  uint64_t LastCall() const {
    if (!options_.calls.has_value()) return UINT64_MAX;
    return options_.calls->ranges().empty() ? 0 : options_.calls->ranges().back().second;
  }

  // Of the thread's open calls, by depth, how many are shown around and including each.
  std::vector<uint32_t>& ShownDepths(const CallRecord& call) { return shown_depths_[{call.process, call.thread}]; }

  bool Accepts(const CallRecord& call) {
    if (options_.calls.has_value() && !options_.calls->Contains(call.call)) return false;
    const std::vector<int>& levels = options_.levels;
    if (!levels.empty() && std::find(levels.begin(), levels.end(), call.level) == levels.end()) return false;
    if (options_.filter.AcceptsAll()) return true;
    if (call.config >= accepted_.size()) accepted_.resize(call.config + size_t{1});
    std::optional<bool>& accepted = accepted_[call.config];
    if (!accepted.has_value()) accepted = options_.filter.Accepts(ReadConfigHead(trace_->identity(call.config)).api);
    return *accepted;
  }

  void Enter(const CallRecord& call) {
    several_threads_ = several_threads_ || call.process != 0 || call.thread != 0;
    const bool accepted = Accepts(call);
    std::vector<uint32_t>& depths = ShownDepths(call);
    const size_t depth = std::min<size_t>(call.depth, depths.size());
    depths.resize(depth);
    const uint32_t indent = depths.empty() ? 0 : depths.back();
    depths.push_back(indent + (accepted ? 1 : 0));
    if (!accepted) return;

    ++shown_;
    Shown shown;
    shown.entry = call;
    shown.indent = indent;
    waiting_.push_back(std::make_shared<Shown>(std::move(shown)));
    open_.emplace(call.call, waiting_.back());
    if (waiting_.size() > options_.max_waiting_calls) WriteFirst(/*more_follows=*/true);
  }

  void End(const CallRecord& call) {
    const auto at = open_.find(call.call);
    if (at == open_.end()) return;
    Shown& shown = *at->second;
    shown.ended = true;
    shown.raised = call.kind == CallRecord::kRaise;
    shown.duration_ns = call.duration_ns;
    shown.exception = call.exception;
    if (shown.early) WriteEnd(shown);
    open_.erase(at);
    while (!waiting_.empty() && waiting_.front()->ended) WriteFirst(/*more_follows=*/true);
  }

  // `more_follows`: whether its end may still come.
  void WriteFirst(bool more_follows) {
    const std::shared_ptr<Shown> call = std::move(waiting_.front());
    waiting_.pop_front();
    call->early = more_follows && !call->ended;
    if (options_.format == DumpFormat::kJsonl) {
      WriteJson(*call);
    } else {
      WriteText(*call);
    }
  }

  const char* Color(const char* code) const { return options_.color ? code : ""; }

  // `  12  ` or, with several threads, `  12  [main-1234 1]  `, then the calling line where the trace
  // has stacks, and the indentation.
  std::string Lead(const Shown& call) {
    const std::string number = std::to_string(call.entry.call);
    std::string lead = absl::StrCat(Color(kDim), std::string(number.size() < 7 ? 7 - number.size() : 0, ' '), number);
    if (several_threads_) {
      absl::StrAppend(&lead, "  [", PlainLine(NameOfProcess(call)), " ", call.entry.thread, "]");
    }
    absl::StrAppend(&lead, Color(kReset), "  ", LineColumn(call.entry.stack),
                    std::string(2 * size_t{std::min(call.indent, 100u)}, ' '));
    return lead;
  }

  // `train.py:12  `, as wide as the widest before, up to kMaxLineWidth.
  std::string LineColumn(StackId stack) {
    if (!has_stacks_) return "";
    const std::string place = stack == kNoStack ? "" : stack_text_.Place(trace_->stacks().calling_line(stack));
    const auto width = static_cast<size_t>(
        std::count_if(place.begin(), place.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
    line_width_ = std::max(line_width_, std::min(width, kMaxLineWidth));
    const size_t padding = std::max(line_width_, width) - width + 2;
    return absl::StrCat(Color(kDim), place, Color(kReset), std::string(padding, ' '));
  }

  // The calling line; with --stacks the frames too.
  void AddStack(StackId stack, ordered_json* json) {
    if (stack == kNoStack) return;
    const StackTable& stacks = trace_->stacks();
    const StackPlace& line = stacks.line(stacks.calling_line(stack));
    const StackCode& code = stacks.code(line.code);
    (*json)["file"] = std::string(code.file);
    (*json)["line"] = line.line;
    (*json)["function"] = std::string(code.function);
    if (options_.stacks.has_value()) (*json)["stack"] = stack_text_.Frames(stack, *options_.stacks);
  }

  void WriteStack(StackId stack) {
    if (!options_.stacks.has_value()) return;
    for (const std::string& frame : stack_text_.Frames(stack, *options_.stacks)) {
      const std::vector<std::string> lines = absl::StrSplit(frame, '\n');
      for (const std::string& line : lines) {
        *out_ << std::string(11, ' ') << Color(kDim) << PlainLine(line) << Color(kReset) << "\n";
      }
    }
  }

  // No clock of a machine shows 0: other tools' files have none.
  static bool HasTimes(const Shown& call) { return call.entry.time_ns != 0 || call.duration_ns != 0; }

  std::string Ending(const Shown& call) const {
    if (!call.ended) return absl::StrCat("  ", Color(kRed), "never returned", Color(kReset));
    std::string text;
    if (HasTimes(call)) absl::StrAppend(&text, "  ", Color(kDim), FormatDuration(call.duration_ns), Color(kReset));
    if (call.raised) {
      const std::string type = call.exception.empty() ? "an exception" : FormatApi(call.exception);
      absl::StrAppend(&text, "  ", Color(kRed), "raised ", type, Color(kReset));
    }
    return text;
  }

  // `  {step=3, phase="eval"}`
  std::string TagsText(uint32_t tags) const {
    const std::string_view text = trace_->tags(tags);
    if (text.empty()) return "";
    const ordered_json object = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return absl::StrCat("  ", Color(kDim), DumpJson(std::string(text)), Color(kReset));
    std::string shown;
    for (const auto& [name, value] : object.items()) {
      absl::StrAppend(&shown, shown.empty() ? "" : ", ", FormatApi(name), "=", DumpJson(value));
    }
    return absl::StrCat("  ", Color(kDim), "{", shown, "}", Color(kReset));
  }

  void WriteText(const Shown& call) {
    *out_ << Lead(call) << text_.Get(call.entry.config) << TagsText(call.entry.tags);
    if (call.early) {
      *out_ << "  <unfinished>\n";
    } else {
      *out_ << Ending(call) << "\n";
    }
    WriteStack(call.entry.stack);
  }

  void WriteJson(const Shown& call) {
    ordered_json json = ordered_json::object();
    json["call"] = call.entry.call;
    if (call.entry.parent != kNoCall) json["parent"] = call.entry.parent;
    json["depth"] = call.entry.depth;
    json["process"] = NameOfProcess(call);
    json["thread"] = call.entry.thread;
    if (HasTimes(call)) json["time_ns"] = call.entry.time_ns;
    if (const std::string_view tags = trace_->tags(call.entry.tags); !tags.empty()) {
      ordered_json object = ordered_json::parse(tags, nullptr, /*allow_exceptions=*/false);
      json["tags"] = object.is_object() ? std::move(object) : ordered_json(std::string(tags));
    }
    AddStack(call.entry.stack, &json);
    if (!call.entry.facts.plain()) AddFacts(call.entry.facts, &json);
    AddEnding(call, &json);
    std::string line = DumpJson(json);
    line.pop_back();
    *out_ << line << "," << json_.Get(call.entry.variant) << "}\n";
  }

  static void AddFacts(const RecordFacts& facts, ordered_json* json) {
    (*json)["scope"] = RecordScopeName(facts.scope);
    if (facts.thread != 0) (*json)["record_thread"] = facts.thread;
    if (facts.sequence >= 0) (*json)["sequence"] = facts.sequence;
    if (facts.forward_thread != 0) (*json)["forward_thread"] = facts.forward_thread;
    if (facts.id != 0) (*json)["record_id"] = facts.id;
  }

  static void AddEnding(const Shown& call, ordered_json* json) {
    (*json)["outcome"] = call.early    ? "unfinished"
                         : !call.ended ? "never returned"
                         : call.raised ? "raised"
                                       : "returned";
    if (!call.ended) return;
    if (HasTimes(call)) (*json)["duration_ns"] = call.duration_ns;
    if (call.raised) (*json)["exception"] = call.exception;
  }

  // How a call ended whose line was written before.
  void WriteEnd(Shown& call) {
    call.early = false;
    if (options_.format == DumpFormat::kJsonl) {
      ordered_json json = ordered_json::object();
      json["end_of_call"] = call.entry.call;
      AddEnding(call, &json);
      *out_ << DumpJson(json) << "\n";
      return;
    }
    const ConfigHead head = ReadConfigHead(trace_->identity(call.entry.config));
    *out_ << Lead(call) << "<end of " << FormatApi(head.api) << ">" << Ending(call) << "\n";
  }

  std::string NameOfProcess(const Shown& call) const { return ProcessName(trace_->processes()[call.entry.process]); }

  Trace* const trace_;
  const DumpOptions& options_;
  std::ostream* const out_;
  const bool has_stacks_;
  StackText stack_text_;
  size_t line_width_ = 0;
  LineCache text_;
  LineCache json_;
  std::vector<std::optional<bool>> accepted_;  // by ConfigId: whether the filter does
  bool several_threads_ = false;
  uint64_t shown_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> shown_depths_;
  std::deque<std::shared_ptr<Shown>> waiting_;       // in program order, not yet written
  std::map<uint64_t, std::shared_ptr<Shown>> open_;  // not yet ended, by call number
};

}  // namespace

absl::StatusOr<DumpFormat> ParseDumpFormat(std::string_view text) {
  if (text == "text") return DumpFormat::kText;
  if (text == "jsonl") return DumpFormat::kJsonl;
  return absl::InvalidArgumentError(absl::StrCat("unknown format \"", std::string(text), "\"; known: text, jsonl"));
}

absl::StatusOr<uint64_t> WriteDump(Trace* trace, const DumpOptions& options, std::ostream* out) {
  return Dump(trace, options, out).Run();
}

}  // namespace torchtrace
