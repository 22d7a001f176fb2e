#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "serialize/base/clip_text.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/reports/reports.h"
#include "serialize/trace/recent_calls.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// Wider calling lines exceed their column.
constexpr size_t kMaxLineWidth = 40;

// A shown call from its entry on, or what came later of one.
struct Shown {
  CallRecord entry;
  std::shared_ptr<Shown> parent;  // the innermost shown call around it
  uint32_t indent = 0;            // number of calls around it that have a line; set after its parent's
  bool ended = false;
  bool raised = false;
  bool early = false;    // its line was written before its end was known
  bool dropped = false;  // it has no line: it is before the tail
  bool folded = false;   // it has no line: it is on its parent's
  bool later = false;    // notes that came later, if they are not empty; `entry` names the call
  int64_t duration_ns = 0;
  std::string exception;
  std::string notes;   // on its tensors (tensor_notes.h)
  std::string result;  // CallResult::values, empty if unknown
  std::string result_notes;
  std::string written;  // CallResult::written

  // The number of shown calls directly in it, and the first one as long as it may be folded.
  uint64_t children = 0;
  std::shared_ptr<Shown> only_child;
  std::vector<ConfigId> same;  // the calls in it that are folded, outermost first
};

// The bytes of the arguments; equal for equal arguments.
std::string_view ArgumentsOf(std::string_view identity) {
  const std::string_view api = ReadConfigHead(identity).api;
  return api.data() == nullptr ? identity
                               : identity.substr(static_cast<size_t>(api.data() + api.size() - identity.data()));
}

uint64_t CountTensors(const Value& value) {
  uint64_t tensors = value.tag == ValueTag::kTensor ? 1 : 0;
  for (const Value& item : value.items) tensors += CountTensors(item);
  return tensors;
}

// ` {nan 2, mean 0.1, min -3, max 3.2}`, of all elements of the tensors from position `begin` to before `end`, several
// tensors without their mean. What is wrong comes first. Empty if there are no numbers.
std::string NumbersText(const std::vector<TensorNote>& notes, uint64_t begin, uint64_t end) {
  TensorNote::Numbers all;
  size_t tensors = 0;
  for (const TensorNote& note : notes) {
    if (note.position < begin || note.position >= end || !note.numbers) continue;
    const TensorNote::Numbers& numbers = *note.numbers;
    ++tensors;
    all.nans += numbers.nans;
    all.positive_infinities += numbers.positive_infinities;
    all.negative_infinities += numbers.negative_infinities;
    if (numbers.finite == 0) continue;
    all.least = all.finite == 0 ? numbers.least : std::min(all.least, numbers.least);
    all.most = all.finite == 0 ? numbers.most : std::max(all.most, numbers.most);
    all.mean = numbers.mean;
    all.finite += numbers.finite;
  }
  const std::string text = NumbersText(all, /*with_mean=*/tensors == 1);
  return text.empty() ? "" : absl::StrCat(" {", text, "}");
}

class Dump {
 public:
  Dump(Trace* trace, const DumpOptions& options, std::ostream* out)
      : trace_(trace),
        options_(options),
        out_(out),
        selector_(trace, options),
        fold_(options.fold && options.format == DumpFormat::kText),
        has_stacks_(HasStacks(*trace)),
        stack_text_(*trace),
        text_([this](uint32_t config) {
          return fold_ ? FoldedConfigText(*trace_, config) : ConfigText(*trace_, config);
        }),
        json_([trace](uint32_t variant) {
          // Without its braces, to insert it among a call's other members.
          const std::string object = DumpJson(VariantJson(*trace, variant));
          return object.substr(1, object.size() - 2);
        }) {
    for (const ProcessInfo& process : trace->processes()) {
      for (const int level : process.known.levels) {
        if (IsShownLevel(level)) levels_.insert(level);
      }
    }
  }

  absl::Status Run() {
    if (absl::Status s = selector_.Prepare(); !s.ok()) return s;
    const absl::Status finished = absl::CancelledError();
    const uint64_t last = LastCall();
    const LaterNotesShown shown(trace_);
    const absl::Status read = trace_->Read([&](const CallRecord& call) -> absl::Status {
      last_ns_[call.process] = call.time_ns;
      if (call.kind == CallRecord::kEnter) {
        if (call.call > last && open_.empty()) return finished;
        Enter(call);
      } else if (call.kind == CallRecord::kLater) {
        Later(call);
      } else {
        End(call);
      }
      return out_->good() ? absl::OkStatus() : absl::AbortedError("cannot write the dump");
    });
    if (!read.ok() && read != finished) return read;
    // Calls that are still open never returned.
    if (options_.slowest > 0) {
      if (absl::Status s = WriteSlowest(); !s.ok()) return s;
    }
    while (!waiting_.empty()) WriteFirst(/*more_follows=*/false);
    for (const auto& [number, call] : open_) {
      if (call->early) WriteEnd(*call);
    }
    out_->flush();
    return out_->good() ? absl::OkStatus() : absl::AbortedError("cannot write the dump");
  }

 private:
  // The last call that may be shown, or that may come before what is shown of another one.
  uint64_t LastCall() const {
    if (!options_.calls.has_value()) return UINT64_MAX;
    const uint64_t last = options_.calls->ranges().empty() ? 0 : options_.calls->ranges().back().second;
    const std::vector<ProcessInfo>& processes = trace_->processes();
    const bool numbers = std::any_of(processes.begin(), processes.end(),
                                     [](const ProcessInfo& process) { return process.known.numbers; });
    return numbers && last < UINT64_MAX - kRecentCalls ? last + kRecentCalls : last;
  }

  bool IsShownLevel(int level) const {
    const std::vector<int>& levels = options_.levels;
    return levels.empty() || std::find(levels.begin(), levels.end(), level) != levels.end();
  }

  // For each depth of a thread's open calls: the innermost shown call up to there, and the number of shown calls.
  struct Around {
    std::shared_ptr<Shown> call;
    uint32_t generation = 0;
  };

  void Enter(const CallRecord& record) {
    several_threads_ = several_threads_ || record.process != 0 || record.thread != 0;
    std::vector<Around>& around = around_[{record.process, record.thread}];
    around.resize(std::min<size_t>(record.depth, around.size()));
    const Around outer = around.empty() ? Around() : around.back();
    if (outer.generation >= options_.depth || !selector_.Accepts(record)) {
      around.push_back(outer);
      return;
    }
    levels_.insert(record.level);
    const auto call = std::make_shared<Shown>();
    call->entry = record;
    call->notes = record.notes;
    call->parent = outer.call;
    around.push_back({call, outer.generation + 1});
    if (call->parent != nullptr && fold_) {
      Shown& parent = *call->parent;
      // A parent with two calls folds neither.
      if (parent.children++ == 0) {
        parent.only_child = call;
      } else {
        Release(&parent);
      }
    }
    open_.emplace(record.call, call);
    recent_[{record.process, record.thread}].Add(record.call, {});
    if (options_.slowest > 0) {
      later_.try_emplace(record.call);
    } else {
      Append(call);
    }
  }

  void Append(const std::shared_ptr<Shown>& call) {
    waiting_.push_back(call);
    if (options_.tail > 0) {
      if (waiting_.size() > options_.tail) {
        waiting_.front()->dropped = true;
        waiting_.front()->parent = nullptr;
        waiting_.pop_front();
      }
    } else if (waiting_.size() > options_.max_waiting_calls) {
      WriteFirst(/*more_follows=*/true);
    }
  }

  void End(const CallRecord& record) {
    const auto at = open_.find(record.call);
    if (at == open_.end()) return;
    const std::shared_ptr<Shown> call = at->second;
    open_.erase(at);
    call->ended = true;
    call->raised = record.kind == CallRecord::kRaise;
    call->duration_ns = record.duration_ns;
    call->exception = record.exception;
    call->result = record.result.values;
    call->result_notes = record.result.notes;
    call->written = record.result.written;
    Fold(call.get());
    if (options_.slowest > 0) {
      // A call that may still be folded waits in its parent.
      if (!fold_ || call->parent == nullptr || call->parent->only_child != call) Offer(call);
      return;
    }
    if (call->early) WriteEnd(*call);
    while (options_.tail == 0 && !waiting_.empty() && waiting_.front()->ended) WriteFirst(/*more_follows=*/true);
  }

  void Later(const CallRecord& record) {
    if (!record.device_work.empty()) return;
    if (recent_[{record.process, record.thread}].Find(record.call) == nullptr) return;
    const auto later = std::make_shared<Shown>();
    later->entry = record;
    later->later = later->ended = true;
    later->notes = record.notes;
    later->result_notes = record.result.notes;
    later->written = record.result.written;
    if (options_.slowest > 0) {
      if (const auto of = later_.find(record.call); of != later_.end()) of->second.push_back(later);
      return;
    }
    Append(later);
    while (options_.tail == 0 && !waiting_.empty() && waiting_.front()->ended) WriteFirst(/*more_follows=*/true);
  }

  bool IsFolded(const CallRecord& call) {
    const RecentCall* const recent = recent_[{call.process, call.thread}].Find(call.call);
    return recent != nullptr && recent->folded;
  }

  // Folds the only child into the call if it has the same arguments and ended in the same way.
  void Fold(Shown* call) {
    const std::shared_ptr<Shown> child = call->only_child;
    if (child == nullptr) return;
    if (!call->early && !call->dropped && child->ended && child->raised == call->raised &&
        child->exception == call->exception &&
        ArgumentsOf(trace_->identity(child->entry.config)) == ArgumentsOf(trace_->identity(call->entry.config))) {
      child->folded = true;
      later_.erase(child->entry.call);
      if (RecentCall* const recent = recent_[{child->entry.process, child->entry.thread}].Find(child->entry.call)) {
        recent->folded = true;
      }
      call->same.push_back(child->entry.config);
      call->same.insert(call->same.end(), child->same.begin(), child->same.end());
    }
    Release(call);
  }

  // Gives the only child its own line, unless it is folded.
  void Release(Shown* call) {
    const std::shared_ptr<Shown> child = std::move(call->only_child);
    call->only_child = nullptr;
    if (child != nullptr && options_.slowest > 0 && child->ended && !child->folded) Offer(child);
  }

  // Keeps the call while it is among the slowest.
  void Offer(const std::shared_ptr<Shown>& call) {
    slowest_.emplace(std::pair(-call->duration_ns, call->entry.call), call);
    if (slowest_.size() <= options_.slowest) return;
    later_.erase(std::prev(slowest_.end())->second->entry.call);
    slowest_.erase(std::prev(slowest_.end()));
  }

  absl::Status WriteSlowest() {
    for (const auto& [number, call] : open_) {
      // The best estimate.
      call->duration_ns = last_ns_[call->entry.process] - call->entry.time_ns;
      Release(call.get());
      Offer(call);
    }
    if (!slowest_.empty() && !HasTimes(*slowest_.begin()->second)) {
      return absl::FailedPreconditionError("the trace has no times, so --slowest can't choose");
    }
    for (const auto& [key, call] : slowest_) {
      waiting_.push_back(call);
      for (const std::shared_ptr<Shown>& later : later_[call->entry.call]) waiting_.push_back(later);
    }
    for (const std::shared_ptr<Shown>& call : waiting_) call->parent = nullptr;
    return absl::OkStatus();
  }

  // `more_follows`: whether the call's end may still come.
  void WriteFirst(bool more_follows) {
    const std::shared_ptr<Shown> call = std::move(waiting_.front());
    waiting_.pop_front();
    if (const std::shared_ptr<Shown> parent = std::move(call->parent)) {
      call->indent = parent->dropped ? 0 : parent->indent + (call->folded ? 0 : 1);
    }
    call->parent = nullptr;
    if (call->folded || (call->later && IsFolded(call->entry))) return;
    if (call->later) return WriteLater(*call);
    call->early = more_follows && !call->ended;
    if (options_.format == DumpFormat::kJsonl) {
      WriteJson(*call);
    } else {
      WriteText(*call);
    }
  }

  const char* Color(const char* code) const { return options_.color ? code : ""; }
  std::string Dim(const std::string& text) const {
    return text.empty() ? "" : absl::StrCat(Color(kDim), text, Color(kReset));
  }

  // `  12  ` or, with several threads, `  12  [main-1234 1]  `, then the level where there are several, the calling
  // line where the trace has stacks, and the indentation.
  std::string Lead(const Shown& call) {
    const std::string number = std::to_string(call.entry.call);
    std::string lead = absl::StrCat(Color(kDim), std::string(number.size() < 7 ? 7 - number.size() : 0, ' '), number);
    if (several_threads_) {
      absl::StrAppend(&lead, "  [", PlainLine(NameOfProcess(call)), " ", call.entry.thread, "]");
    }
    if (levels_.size() > 1) absl::StrAppend(&lead, "  L", call.entry.level);
    absl::StrAppend(&lead, Color(kReset), "  ", LineColumn(call.entry.stack),
                    std::string(2 * size_t{std::min(call.indent, 100u)}, ' '));
    return lead;
  }

  // `train.py:12  `, as wide as the widest before, up to kMaxLineWidth.
  std::string LineColumn(StackId stack) {
    if (!has_stacks_) return "";
    const std::string place = stack == kNoStack ? "" : stack_text_.Place(trace_->stacks().calling_line(stack));
    const size_t width = CountCharacters(place);
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

  // No real clock shows 0; files of other tools may have no times.
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

  struct ResultText {
    std::string values;   // `  -> Tensor(...)`, several with commas, `()` for no values; empty if unknown
    std::string numbers;  // ` {mean 0.1, min -3, max 3.2}`, of the last value; not clipped
  };
  // The numbers of what the call wrote come last, `  wrote {...}`, unless a value has the same ones: the call returns
  // what it wrote.
  ResultText FormatResult(const Shown& call) const {
    ResultText text;
    if (!call.ended) return text;
    const std::string written = NumbersText(ReadTensorNotes(call.written), 0, UINT64_MAX);
    bool returned = written.empty();
    if (!call.result.empty()) {
      const std::string_view framework = FrameworkOfApi(ReadConfigHead(trace_->identity(call.entry.config)).api);
      const std::vector<TensorNote> notes = ReadTensorNotes(call.result_notes);
      uint64_t position = 0;
      for (const Value& value : ReadableResult(call.result)) {
        absl::StrAppend(&text.values, text.numbers, text.values.empty() ? "  -> " : ", ",
                        FormatValue(value, framework));
        const uint64_t begin = position;
        position += CountTensors(value);
        text.numbers = NumbersText(notes, begin, position);
        returned = returned || text.numbers == written;
      }
      if (text.values.empty()) text.values = "  -> ()";
    }
    if (!returned) absl::StrAppend(&text.numbers, "  wrote", written);
    return text;
  }

  // `  {step=3, phase="eval"}`
  std::string TagsText(uint32_t tags) const {
    const std::string_view text = trace_->tags(tags);
    if (text.empty()) return "";
    const ordered_json object = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return absl::StrCat("  ", DumpJson(std::string(text)));
    std::string shown;
    for (const auto& [name, value] : object.items()) {
      absl::StrAppend(&shown, shown.empty() ? "" : ", ", FormatApi(name), "=", DumpJson(value));
    }
    return absl::StrCat("  {", shown, "}");
  }

  // `  = L2 aten::relu`: the folded calls.
  std::string SameText(const Shown& call) const {
    std::string text;
    for (const ConfigId config : call.same) {
      const ConfigHead head = ReadConfigHead(trace_->identity(config));
      absl::StrAppend(&text, "  = ", levels_.size() > 1 ? absl::StrCat("L", head.level, " ") : "", FormatApi(head.api));
    }
    return text;
  }

  void WriteText(const Shown& call) {
    const std::string lead = Lead(call);
    const ResultText result = call.early ? ResultText() : FormatResult(call);
    const std::string ending = call.early ? "  <unfinished>" : absl::StrCat(Dim(result.numbers), Ending(call));
    const std::string_view text = text_.Get(call.entry.config);
    const std::string beside = absl::StrCat(SameText(call), TagsText(call.entry.tags), result.values);
    const std::string body = absl::StrCat(std::string(text), beside);
    *out_ << lead;
    if (const std::string clipped = ClipText(body, options_.width, Width(lead) + Width(ending)); clipped != body) {
      *out_ << clipped;
    } else if (beside.empty()) {
      *out_ << text;
    } else {
      *out_ << text << Dim(beside);
    }
    *out_ << ending << "\n";
    WriteStack(call.entry.stack);
  }

  // Text shows no numbers of arguments.
  void WriteLater(const Shown& later) {
    if (options_.format == DumpFormat::kJsonl) {
      ordered_json json = ordered_json::object();
      json["later_of_call"] = later.entry.call;
      AddNotes("tensors", later.notes, &json);
      AddNotes("result_tensors", later.result_notes, &json);
      AddNotes("written_tensors", later.written, &json);
      *out_ << DumpJson(json) << "\n";
      return;
    }
    for (const auto& [what, notes] : {std::pair("returned", &later.result_notes), std::pair("wrote", &later.written)}) {
      const std::string numbers = NumbersText(ReadTensorNotes(*notes), 0, UINT64_MAX);
      if (numbers.empty()) continue;
      *out_ << Color(kDim) << std::string(9, ' ') << "#" << later.entry.call << " " << what << numbers << Color(kReset)
            << "\n";
    }
  }

  // In characters, without colours.
  static size_t Width(std::string_view text) {
    size_t width = CountCharacters(text);
    for (size_t at = text.find('\x1b'); at != std::string_view::npos; at = text.find('\x1b', at + 1)) {
      width -= text.find('m', at) - at + 1;
    }
    return width;
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
    AddNotes("tensors", call.notes, &json);
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
    if (!call.result.empty()) {
      ordered_json& values = (*json)["result"] = ordered_json::array();
      for (const Value& value : ReadableResult(call.result)) values.push_back(ValueToJson(value));
      AddNotes("result_tensors", call.result_notes, json);
    }
    AddNotes("written_tensors", call.written, json);
  }

  // The notes on tensors, by their positions in the call.
  static void AddNotes(const char* name, std::string_view notes, ordered_json* json) {
    if (!notes.empty()) (*json)[name] = NotesToJson(ReadTensorNotes(notes));
  }

  // Writes the end of a call whose line was written before it ended.
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
    const ResultText result = FormatResult(call);
    *out_ << Lead(call) << "<end of " << FormatApi(head.api) << ">" << result.values << result.numbers << Ending(call)
          << "\n";
  }

  std::string NameOfProcess(const Shown& call) const { return ProcessName(trace_->processes()[call.entry.process]); }

  Trace* const trace_;
  const DumpOptions& options_;
  std::ostream* const out_;
  CallSelector selector_;
  const bool fold_;
  const bool has_stacks_;
  StackText stack_text_;
  size_t line_width_ = 0;
  LineCache text_;
  LineCache json_;
  bool several_threads_ = false;
  std::set<int> levels_;  // that are shown, as far as known
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Around>> around_;
  // The latest shown calls, by process and thread.
  struct RecentCall {
    bool folded = false;
  };
  std::map<std::pair<uint32_t, uint32_t>, RecentCalls<RecentCall>> recent_;
  std::map<uint64_t, std::vector<std::shared_ptr<Shown>>> later_;  // of calls that may be the slowest, by number
  std::map<uint32_t, int64_t> last_ns_;                            // by process: its last record
  std::deque<std::shared_ptr<Shown>> waiting_;                     // not yet written, in order
  std::map<uint64_t, std::shared_ptr<Shown>> open_;                // not yet ended, by call number
  std::map<std::pair<int64_t, uint64_t>, std::shared_ptr<Shown>> slowest_;  // the longest first
};

}  // namespace

const Choices<DumpFormat>& DumpFormats() {
  static const Choices<DumpFormat> formats("unknown format",
                                           {{"text", DumpFormat::kText}, {"jsonl", DumpFormat::kJsonl}});
  return formats;
}

absl::Status WriteDump(Trace* trace, const DumpOptions& options, std::ostream* out) {
  return Dump(trace, options, out).Run();
}

}  // namespace torchtrace
