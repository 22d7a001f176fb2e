#include "serialize/reports/memory_report.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/base/reused_stack.h"
#include "serialize/base/text.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/reports/memory_moments.h"
#include "serialize/reports/module_owners.h"
#include "serialize/reports/report_table.h"
#include "serialize/reports/reports.h"
#include "serialize/reports/shapes.h"
#include "serialize/trace/live_memory.h"
#include "serialize/trace/node_makers.h"
#include "serialize/trace/run_facts.h"
#include "serialize/trace/step_times.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// Deeper calls exist only in damaged logs.
constexpr uint32_t kDeepest = 1'000'000;

constexpr LineId kNoLine = UINT32_MAX;

constexpr char kBeforeTrace[] = "before the trace";

// What a program does memory for, as far as the calls around show it; docs/MEMORY.md has the rules.
enum class Phase : uint8_t {
  kOther,
  kBackward,
  kOptimizer,
  kClosure  // of the program, in an optimizer's step
};

std::string Amount(uint64_t bytes) { return absl::StrCat(FormatAmount(static_cast<double>(bytes)), "B"); }

bool HasModules(const Trace& trace) {
  for (ConfigId id = 0; id < trace.config_count(); ++id) {
    if (!ModuleLabelOf(trace.identity(id)).empty()) return true;
  }
  return false;
}

class MemoryReport {
 public:
  MemoryReport(Trace* trace, const MemoryOptions& options) : trace_(*trace), options_(options), text_(*trace) {}

  absl::Status Read() {
    const MemoryShown shown(&trace_);
    LiveMemory<char> memory;
    Begin(&memory);
    Begin(&memory_);
    absl::Status read = trace_.Read([&](const CallRecord& record) {
      if (record.kind == CallRecord::kMemory) {
        memory.Apply(record.process, record.memory);
        if (options_.history != nullptr) FindMoment(record, memory);
      }
      if (record.kind == CallRecord::kEnter) {
        steps_.Add(record);
        FindScopeEnds(record);
      }
      return absl::OkStatus();
    });
    if (!read.ok()) return read;
    steps_.Finish();
    for (auto& [device, history] : histories_) history.events = 0;
    step_now_.resize(trace_.processes().size());
    left_is_taken_.resize(trace_.processes().size());
    for (const auto& [device, totals] : memory.devices()) {
      if (totals.peak == 0) continue;
      Peak& peak = devices_[device];
      peak.bytes = totals.peak;
      peak.allocation = totals.peak_at;
      peak.at_end = totals.live;
      peak.ends_before = totals.ends_before;
      if (peak.allocation == 0) TakePeak(device, kBeforeTrace, &peak);
    }
    read = trace_.Read([this](const CallRecord& record) {
      if (LastStepHasEnded(record)) TakeLeft(record.process);
      switch (record.kind) {
        case CallRecord::kEnter:
          Enter(record);
          break;
        case CallRecord::kMemory:
          Change(record);
          break;
        default:
          Leave(record);
      }
      return absl::OkStatus();
    });
    if (!read.ok()) return read;
    for (const auto& [number, block] : at_peak_) AddRow(block, std::nullopt);
    at_peak_.clear();
    for (uint32_t i = 0; i < trace_.processes().size(); ++i) TakeLeft(i);
    if (options_.history != nullptr) TakeHistories();
    return absl::OkStatus();
  }

  void WriteText(std::ostream* out) {
    const char* between = "";
    for (const auto& [device, peak] : devices_) {
      *out << std::exchange(between, "\n") << Title(device) << ": peak " << Amount(peak.bytes) << " (" << peak.bytes
           << " bytes), " << Amount(peak.at_end) << " at the end\n";
      *out << "  when  " << (peak.step.empty() ? "" : absl::StrCat("step ", peak.step, ", ")) << peak.when << "\n";
      if (peak.ends_before != 0 && peak.before == 0) {
        *out << "  before  " << Counted(peak.ends_before, "block", "blocks")
             << " from before the trace ended in it; those are not counted\n";
      }
      TextTable table({{"bytes", TextTable::kRight},
                       {"%", TextTable::kRight},
                       {"blocks", TextTable::kRight},
                       {"kind", TextTable::kLeft},
                       {"made by", TextTable::kLeft}});
      for (const auto& [row, sum] : Rows(peak)) {
        table.AddRow({Amount(sum.bytes), FormatPercent(sum.bytes, peak.bytes), BlocksText(sum), row.first, row.second});
      }
      if (const std::optional<uint64_t> rounding = Rounding(device, peak)) {
        table.AddRow({Amount(*rounding), FormatPercent(*rounding, peak.bytes), "", "rounding up", ""});
      }
      *out << table.Format();
      if (!steps_.Of(device.process).empty()) WriteLeaks(Leaks(peak), out);
    }
    if (devices_.empty()) *out << "no memory was allocated\n";
  }

  void WriteJson(std::ostream* out) {
    ordered_json devices = ordered_json::array();
    for (const auto& [device, peak] : devices_) {
      ordered_json rows = ordered_json::array();
      for (const auto& [row, sum] : Rows(peak)) {
        rows.push_back({{"kind", row.first}, {"made_by", row.second}, {"bytes", sum.bytes}, {"blocks", sum.blocks}});
      }
      ordered_json steps = ordered_json::array();
      for (const auto& [number, sum] : peak.steps) {
        steps.push_back(
            {{"step", StepName(device.process, number)}, {"allocated_bytes", sum.allocated}, {"left_bytes", sum.left}});
      }
      ordered_json leaks = ordered_json::array();
      for (const auto& [row, left] : Leaks(peak)) {
        leaks.push_back({{"kind", row.first},
                         {"made_by", row.second},
                         {"bytes", left.sum.bytes},
                         {"blocks", left.sum.blocks},
                         {"steps", left.steps.size()}});
      }
      const std::optional<uint64_t> rounding = Rounding(device, peak);
      devices.push_back({{"process", device.process},
                         {"device", DeviceName(device.device)},
                         {"peak_bytes", peak.bytes},
                         {"end_bytes", peak.at_end},
                         {"peak_time_ns", peak.time_ns},
                         {"peak_call", peak.call == kNoCall ? ordered_json(nullptr) : ordered_json(peak.call)},
                         {"peak_step", peak.step.empty() ? ordered_json(nullptr) : ordered_json(peak.step)},
                         {"when", peak.when},
                         {"rows", std::move(rows)},
                         {"rounding_bytes", rounding.has_value() ? ordered_json(*rounding) : ordered_json(nullptr)},
                         {"blocks_ended_from_before", peak.ends_before},
                         {"steps", std::move(steps)},
                         {"leaks", std::move(leaks)}});
    }
    *out << ordered_json{{"devices", std::move(devices)}}.dump(2, ' ', false, ordered_json::error_handler_t::replace)
         << "\n";
  }

 private:
  struct Sum {
    uint64_t bytes = 0;
    uint64_t blocks = 0;
  };
  using Row = std::pair<std::string, std::string>;  // kind, who made it
  struct StepSum {
    uint64_t allocated = 0;
    uint64_t left = 0;  // of it, alive when the last step has ended
  };
  // What lives then.
  struct Left {
    Sum sum;
    std::set<uint64_t> steps;
  };
  struct Peak {
    uint64_t bytes = 0;
    uint64_t allocation = 0;  // that reached it; 0: it was before the trace
    uint64_t at_end = 0;
    uint64_t before = 0;  // of the peak, from before the trace
    uint64_t ends_before = 0;
    std::string when;
    std::string step;  // empty: in none
    std::map<Row, Sum> rows;
    std::map<uint64_t, StepSum> steps;
    std::map<Row, Left> left;  // by steps before the last one
    int64_t time_ns = 0;
    uint64_t call = kNoCall;
  };
  struct Means {
    Phase phase = Phase::kOther;
    // Level 2 sees an optimizer's step as an operator that opens a scope, and one that closes it.
    bool begins_step = false;
    bool begins_scope = false;
    bool ends_scope = false;
  };
  struct OpenCall {
    uint64_t call = kNoCall;
    ConfigId config = kLostId;
    uint32_t tags = kNoTags;
    LineId line = kNoLine;
    Phase phase = Phase::kOther;  // of what is around it, too
    uint64_t phase_call = kNoCall;
    bool in_backward = false;  // an optimizer's step that a backward pass calls
  };
  struct Thread {
    ReusedStack<OpenCall> open;
    bool is_backward = false;  // autograd's own thread
    // At level 2, an optimizer's step begins and ends with calls of their own.
    uint64_t scoped_step = kNoCall;
    uint64_t scoped_end = kNoCall;  // kNoCall: it was not recorded, and the scope ends when the program's step does
    int64_t scoped_until_ns = 0;
    NodesMade made;
  };
  struct Scope {
    uint64_t call = kNoCall;
    uint32_t depth = 0;
    bool is_step = false;
  };
  // Who made a block.
  struct Maker {
    ConfigId config = kLostId;
    ConfigId module = kLostId;
    LineId line = kNoLine;
    Phase phase = Phase::kOther;
    uint64_t phase_call = kNoCall;
    uint64_t step = 0;    // 0: none
    uint64_t number = 0;  // of the block, among all of the trace
    uint64_t event = 0;   // of the device, for its history
  };
  using Blocks = LiveMemory<Maker>;
  struct AtPeak {
    ProcessDevice device;
    uint64_t bytes = 0;
    Maker maker;
    bool parameter = false;
  };
  struct Doing {
    Phase phase = Phase::kOther;
    uint64_t call = kNoCall;
    bool in_backward = false;  // as in OpenCall
  };

  // Of a device: in the first reading its moments, in the second one what lived in them.
  struct History {
    explicit History(size_t most) : moments(most) {}

    MemoryMoments moments;
    uint64_t events = 0;
  };

  // After the record.
  void FindMoment(const CallRecord& record, const LiveMemory<char>& memory) {
    if (record.memory.of_parameter()) return;
    const ProcessDevice device = {record.process, record.memory.device};
    History& history = histories_.try_emplace(device, options_.moments).first->second;
    history.moments.Add(record.time_ns, ++history.events, memory.devices().at(device).live);
  }

  void TakeHistories() {
    memory_.ForEach([this](const ProcessDevice& device, const Blocks::Block& block) {
      const auto at = histories_.find(device);
      if (at == histories_.end()) return;
      at->second.moments.AddBlock(block.owner.event, UINT64_MAX, KindOf(block.owner, block.parameter, std::nullopt),
                                  block.bytes);
    });
    for (const auto& [device, history] : histories_) {
      MemoryHistory& taken = options_.history->emplace_back();
      taken.process = device.process;
      taken.device = device.device;
      taken.bytes = history.moments.Bytes();
      std::vector<uint64_t> before;
      for (size_t i = 0; i < history.moments.moments().size(); ++i) {
        const MemoryMoments::Moment& moment = history.moments.moments()[i];
        taken.time_ns.push_back(moment.time_ns);
        before.push_back(moment.bytes);
        for (const auto& [kind, bytes] : taken.bytes) before.back() -= std::min(before.back(), bytes[i]);
      }
      if (std::any_of(before.begin(), before.end(), [](uint64_t bytes) { return bytes > 0; })) {
        taken.bytes[kBeforeTrace] = std::move(before);
      }
    }
  }

  // What allocators had before the first record.
  template <typename Memory>
  void Begin(Memory* memory) const {
    for (uint32_t i = 0; i < trace_.processes().size(); ++i) {
      for (const auto& [device, totals] : trace_.processes()[i].known.allocators) {
        memory->Begin({i, device}, totals.before);
      }
    }
  }

  Thread& ThreadOf(const CallRecord& record) {
    const auto [at, fresh] = threads_.try_emplace({record.process, record.thread});
    if (fresh) {
      const ThreadInfo* const thread = FindThread(trace_.processes()[record.process], record.thread);
      at->second.is_backward = thread != nullptr && thread->name.starts_with("pt_autograd");
    }
    return at->second;
  }

  std::string_view ApiOf(ConfigId config) const { return ReadConfigHead(trace_.identity(config)).api; }

  void Enter(const CallRecord& record) {
    const StepPlace place = steps_.Add(record);
    const uint64_t step = place.kind == StepPlace::kInStep ? place.number : 0;
    const auto& steps = steps_.Of(record.process);
    uint64_t& now = step_now_[record.process];
    if (now != step && now != 0 && now == steps.rbegin()->first) TakeLeft(record.process);
    now = step;
    if (record.depth >= kDeepest) return;
    Thread& thread = ThreadOf(record);
    while (thread.open.size() > record.depth) thread.open.Pop();
    while (thread.open.size() < record.depth) thread.open.Push() = OpenCall();
    if (thread.scoped_end == record.call || record.time_ns >= thread.scoped_until_ns) thread.scoped_step = kNoCall;
    const Doing around = Now(thread, record.time_ns);
    OpenCall& open = thread.open.Push();
    open = {record.call, record.config, record.tags, kNoLine, around.phase, around.call, around.in_backward};
    if (record.stack != kNoStack) open.line = trace_.stacks().calling_line(record.stack);
    const Means& means = MeansOf(record.config);
    Phase own = means.phase;
    if (own == Phase::kOther && record.facts.scope == kBackwardScope && !around.in_backward) own = Phase::kBackward;
    // Optimizers record no gradients of what they do.
    if (around.phase == Phase::kOptimizer && !around.in_backward &&
        (IsModule(record.config) || thread.made.Made(record, around.call))) {
      own = Phase::kClosure;
    }
    if (own != Phase::kOther && own != around.phase) {
      open.phase = own;
      open.phase_call = record.call;
      open.in_backward = own == Phase::kOptimizer && around.phase == Phase::kBackward;
    }
    if (means.begins_step && thread.scoped_step == kNoCall) {
      const auto end = scope_ends_.find(record.call);
      const auto of = steps_.Of(record.process).find(step);
      const bool known = of != steps_.Of(record.process).end() && of->second.end_ns.has_value();
      thread.scoped_step = record.call;
      thread.scoped_end = end == scope_ends_.end() ? kNoCall : end->second;
      // Calls between may be missing, and the end may be another scope's; the program's step ends within the
      // optimizer's.
      thread.scoped_until_ns = known ? *of->second.end_ns : end != scope_ends_.end() ? INT64_MAX : 0;
    }
  }

  // Level 1 may see the same scopes, around those of level 2.
  void FindScopeEnds(const CallRecord& record) {
    const Means& means = MeansOf(record.config);
    if (!means.begins_scope && !means.ends_scope) return;
    std::vector<Scope>& open = open_scopes_[{record.process, record.thread, record.level}];
    while (!open.empty() && open.back().depth > record.depth) open.pop_back();
    if (means.begins_scope) {
      open.push_back({record.call, record.depth, means.begins_step});
      return;
    }
    if (open.empty()) return;
    if (open.back().is_step) scope_ends_[open.back().call] = record.call;
    open.pop_back();
  }

  // Memory may change after the last recorded call of a step; 0: in none.
  uint64_t StepOf(const CallRecord& record) const {
    const auto& steps = steps_.Of(record.process);
    const auto now = steps.find(step_now_[record.process]);
    if (now != steps.end() && !now->second.end_ns.has_value()) {
      // Calls are recorded no more since one of its own.
      const ProcessMetadata& known = trace_.processes()[record.process].known;
      const bool has_ended = now->first < known.last_steps.at(known.steps_by).number;
      return has_ended && record.call == kNoCall ? 0 : now->first;
    }
    if (now != steps.end() && record.time_ns < *now->second.end_ns) return now->first;
    const ProgramStep* const step = steps_.At(record.process, record.time_ns);
    return step == nullptr ? 0 : step->number;
  }

  // What calls of the config begin and end.
  const Means& MeansOf(ConfigId config) {
    means_.resize(std::max<size_t>(means_.size(), config + size_t{1}));
    std::optional<Means>& means = means_[config];
    if (means.has_value()) return *means;
    means.emplace();
    const std::string_view api = ApiOf(config);
    if (IsOptimizerStep(api)) {
      means->phase = Phase::kOptimizer;
    } else if (RunsBackward(api)) {
      means->phase = Phase::kBackward;
    } else if (api.starts_with("profiler::_record_function_enter")) {
      means->begins_scope = true;
      means->begins_step = trace_.identity(config).find(kOptimizerStepScope) != std::string_view::npos;
    } else {
      means->ends_scope = api.starts_with("profiler::_record_function_");
    }
    return *means;
  }

  static Doing Now(const Thread& thread, int64_t time_ns) {
    if (!thread.open.empty() && thread.open.back().phase != Phase::kOther) {
      return {thread.open.back().phase, thread.open.back().phase_call, thread.open.back().in_backward};
    }
    if (thread.scoped_step != kNoCall && time_ns < thread.scoped_until_ns) {
      return {Phase::kOptimizer, thread.scoped_step};
    }
    return {thread.is_backward ? Phase::kBackward : Phase::kOther, kNoCall};
  }

  void Leave(const CallRecord& record) {
    if (record.depth >= kDeepest) return;
    Thread& thread = ThreadOf(record);
    while (thread.open.size() > record.depth) thread.open.Pop();
  }

  void Change(const CallRecord& record) {
    Thread& thread = ThreadOf(record);
    if (record.memory.of_parameter()) {
      memory_.Apply(record.process, record.memory);
      const Blocks::Block* const block = memory_.Find(record.process, record.memory);
      const auto at = block == nullptr ? at_peak_.end() : at_peak_.find(block->owner.number);
      if (at != at_peak_.end()) at->second.parameter = true;
      return;
    }
    const uint64_t step = StepOf(record);
    Maker maker;
    if (!record.memory.freed) maker = MakerIn(thread, record.time_ns);
    maker.step = step;
    maker.number = blocks_++;
    const auto history = histories_.find({record.process, record.memory.device});
    if (history != histories_.end()) maker.event = ++history->second.events;
    const auto ended = memory_.Apply(record.process, record.memory, maker);
    if (ended.has_value()) {
      if (history != histories_.end()) {
        const Doing doing = Now(thread, record.time_ns);
        history->second.moments.AddBlock(ended->owner.event, history->second.events,
                                         KindOf(ended->owner, ended->parameter, doing), ended->bytes);
      }
      if (const auto at = at_peak_.find(ended->owner.number); at != at_peak_.end()) {
        AddRow(at->second, Now(thread, record.time_ns));
        at_peak_.erase(at);
      }
    }
    if (record.memory.freed) return;
    const ProcessDevice device = {record.process, record.memory.device};
    const auto peak = devices_.find(device);
    if (peak == devices_.end()) return;
    if (step != 0) peak->second.steps[step].allocated += CountedBytes(record.memory);
    if (memory_.devices().at(device).allocations != peak->second.allocation) return;
    peak->second.time_ns = record.time_ns;
    peak->second.call = record.call;
    if (step != 0) peak->second.step = StepName(record.process, step);
    TakePeak(device, When(record, thread), &peak->second);
  }

  void TakePeak(const ProcessDevice& device, std::string when, Peak* peak) {
    peak->when = std::move(when);
    peak->before = memory_.devices().at(device).before;
    if (peak->before != 0) peak->rows[{kBeforeTrace, ""}].bytes = peak->before;
    memory_.ForEachOf(device, [&](const Blocks::Block& block) {
      at_peak_[block.owner.number] = {device, block.bytes, block.owner, block.parameter};
    });
  }

  Maker MakerIn(const Thread& thread, int64_t time_ns) const {
    Maker maker;
    const Doing now = Now(thread, time_ns);
    maker.phase = now.phase;
    maker.phase_call = now.call;
    for (size_t i = thread.open.size(); i > 0; --i) {
      const OpenCall& call = thread.open[i - 1];
      if (call.config == kLostId) continue;
      if (maker.config == kLostId) maker.config = call.config;
      if (maker.line == kNoLine) maker.line = call.line;
      if (maker.module == kLostId && IsModule(call.config)) maker.module = call.config;
    }
    return maker;
  }

  bool IsModule(ConfigId config) const {
    modules_.resize(std::max<size_t>(modules_.size(), config + size_t{1}));
    if (!modules_[config].has_value()) modules_[config] = ModuleLabelOf(trace_.identity(config));
    return !modules_[config]->empty();
  }

  void AddRow(const AtPeak& block, const std::optional<Doing>& ended) {
    const char* const kind = KindOf(block.maker, block.parameter, ended);
    Sum& sum = devices_[block.device].rows[{kind, MakerText(block.maker)}];
    sum.bytes += block.bytes;
    ++sum.blocks;
  }

  // A program that then returns from a function may free everything that a leak has gathered, without a call. Where the
  // program tags its steps, only calls show that the last one has ended.
  bool LastStepHasEnded(const CallRecord& record) const {
    const auto& steps = steps_.Of(record.process);
    const StepKind kind = trace_.processes()[record.process].known.steps_by;
    if (left_is_taken_[record.process] || steps.empty() || kind == StepKind::kTag) return false;
    const std::optional<int64_t> end_ns = steps.rbegin()->second.end_ns;
    return end_ns.has_value() && record.time_ns >= *end_ns;
  }

  void TakeLeft(uint32_t process) {
    if (left_is_taken_[process]) return;
    left_is_taken_[process] = true;
    for (auto& [device, peak] : devices_) {
      if (device.process != process) continue;
      memory_.ForEachOf(device, [&](const Blocks::Block& block) { AddLeft(device, block, &peak); });
    }
  }

  void AddLeft(const ProcessDevice& device, const Blocks::Block& block, Peak* peak) {
    const Maker& maker = block.owner;
    if (maker.step == 0) return;
    peak->steps[maker.step].left += block.bytes;
    // What the last step made is still in use.
    if (maker.step == steps_.Of(device.process).rbegin()->first) return;
    Left& left = peak->left[{KindOf(maker, block.parameter, std::nullopt), MakerText(maker)}];
    left.sum.bytes += block.bytes;
    ++left.sum.blocks;
    left.steps.insert(maker.step);
  }

  // `ended`: what the program did when the block ended; nothing: it lived to the end.
  static const char* KindOf(const Maker& maker, bool parameter, const std::optional<Doing>& ended) {
    if (parameter) return "parameter";
    const bool ended_in_same = ended.has_value() && ended->phase == maker.phase && ended->call == maker.phase_call &&
                               maker.phase_call != kNoCall;
    const bool ended_in_backward = ended.has_value() && ended->phase == Phase::kBackward;
    if (maker.phase == Phase::kOptimizer && !ended_in_backward) return ended_in_same ? "other" : "optimizer state";
    if (maker.phase == Phase::kBackward) return ended_in_backward ? "other" : "gradient";
    return ended_in_backward ? "activation" : "other";
  }

  std::string StepName(uint32_t process, uint64_t number) const {
    const auto& steps = steps_.Of(process);
    const auto at = steps.find(number);
    return at == steps.end() ? std::to_string(number) : at->second.name;
  }

  static std::string BlocksText(const Sum& sum) { return sum.blocks == 0 ? "" : std::to_string(sum.blocks); }

  // From the peak up to what the allocator had handed out at its own; nothing: it doesn't say, or counts from
  // elsewhere.
  std::optional<uint64_t> Rounding(const ProcessDevice& device, const Peak& peak) const {
    const auto& allocators = trace_.processes()[device.process].known.allocators;
    const auto at = allocators.find(device.device);
    if (at == allocators.end() || at->second.requested_peak != peak.bytes) return std::nullopt;
    if (at->second.allocated_peak < peak.bytes) return std::nullopt;
    return at->second.allocated_peak - peak.bytes;
  }

  // What several steps made that nobody freed, the most bytes first.
  std::vector<std::pair<Row, Left>> Leaks(const Peak& peak) const {
    std::vector<std::pair<Row, Left>> leaks;
    for (const auto& each : peak.left) {
      if (each.second.steps.size() > 1) leaks.emplace_back(each);
    }
    std::stable_sort(leaks.begin(), leaks.end(),
                     [](const auto& a, const auto& b) { return a.second.sum.bytes > b.second.sum.bytes; });
    if (options_.top != 0 && leaks.size() > options_.top) leaks.resize(options_.top);
    return leaks;
  }

  static void WriteLeaks(const std::vector<std::pair<Row, Left>>& leaks, std::ostream* out) {
    *out << "  leaks  " << (leaks.empty() ? "none" : "what several steps made and nothing freed") << "\n";
    if (leaks.empty()) return;
    TextTable table({{"bytes", TextTable::kRight},
                     {"blocks", TextTable::kRight},
                     {"steps", TextTable::kRight},
                     {"kind", TextTable::kLeft},
                     {"made by", TextTable::kLeft}});
    for (const auto& [row, left] : leaks) {
      table.AddRow(
          {Amount(left.sum.bytes), BlocksText(left.sum), std::to_string(left.steps.size()), row.first, row.second});
    }
    *out << table.Format();
  }

  std::string MakerText(const Maker& maker) {
    switch (options_.by) {
      case MemoryBy::kKind:
        return "";
      case MemoryBy::kModule:
        return maker.module == kLostId ? "(no module)" : PlainLine(modules_[maker.module]->Text());
      case MemoryBy::kLine:
        return maker.line == kNoLine ? "(no stack)" : text_.Line(maker.line);
      case MemoryBy::kApi:
        break;
    }
    return maker.config == kLostId ? "(no call)" : FormatApi(ApiOf(maker.config));
  }

  // The calls around, from the outermost on, and the program's tags.
  std::string When(const CallRecord& record, const Thread& thread) const {
    std::string when;
    constexpr size_t kMostCalls = 6;
    size_t shown = 0;
    for (const OpenCall& call : thread.open) {
      if (call.config == kLostId) continue;
      if (++shown > kMostCalls) continue;
      absl::StrAppend(&when, when.empty() ? "" : " > ",
                      IsModule(call.config) ? PlainLine(modules_[call.config]->Text()) : FormatApi(ApiOf(call.config)));
    }
    if (shown > kMostCalls) absl::StrAppend(&when, " > ...");
    if (when.empty()) when = "outside of calls";
    if (record.call != kNoCall) absl::StrAppend(&when, " (call ", record.call, ")");
    const std::string_view tags = thread.open.empty() ? "" : trace_.tags(thread.open.back().tags);
    if (!tags.empty()) absl::StrAppend(&when, " ", PlainLine(tags));
    return when;
  }

  std::string Title(const ProcessDevice& device) const {
    const std::string name = DeviceName(device.device);
    return trace_.processes().size() == 1 ? name
                                          : absl::StrCat(ProcessName(trace_.processes()[device.process]), " ", name);
  }

  // The largest first; the last one sums up those beyond the limit.
  std::vector<std::pair<Row, Sum>> Rows(const Peak& peak) const {
    std::vector<std::pair<Row, Sum>> rows(peak.rows.begin(), peak.rows.end());
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
    if (options_.top == 0 || rows.size() <= options_.top) return rows;
    const size_t more = rows.size() - options_.top;
    Sum sum;
    for (size_t i = options_.top; i < rows.size(); ++i) {
      sum.bytes += rows[i].second.bytes;
      sum.blocks += rows[i].second.blocks;
    }
    rows.resize(options_.top);
    rows.emplace_back(Row("", absl::StrCat("(", Counted(more, "more row", "more rows"), ")")), sum);
    return rows;
  }

  Trace& trace_;
  const MemoryOptions& options_;
  StackText text_;
  std::map<ProcessDevice, Peak> devices_;
  Blocks memory_;
  StepTimes steps_{&trace_};
  std::vector<uint64_t> step_now_;   // by process; 0: none
  std::vector<bool> left_is_taken_;  // by process
  uint64_t blocks_ = 0;
  std::map<ProcessDevice, History> histories_;
  std::map<uint64_t, AtPeak> at_peak_;  // those that have not ended yet, by number
  std::map<std::pair<uint32_t, uint32_t>, Thread> threads_;
  std::map<std::tuple<uint32_t, uint32_t, uint8_t>, std::vector<Scope>> open_scopes_;  // of a level of a thread
  absl::flat_hash_map<uint64_t, uint64_t> scope_ends_;       // calls that begin optimizers' steps, and that end them
  std::vector<std::optional<Means>> means_;                  // by config
  mutable std::vector<std::optional<ModuleLabel>> modules_;  // the same
};

}  // namespace

std::string DeviceName(const MemoryDevice& device) {
  return device.kind == MemoryKind::kCpu    ? "cpu"
         : device.kind == MemoryKind::kCuda ? absl::StrCat("cuda:", device.index)
                                            : absl::StrCat("device ", static_cast<int>(device.kind), ":", device.index);
}

const Choices<MemoryBy>& MemoryGroupings() {
  static const Choices<MemoryBy> groupings(
      "cannot group by",
      {{"api", MemoryBy::kApi}, {"module", MemoryBy::kModule}, {"line", MemoryBy::kLine}, {"kind", MemoryBy::kKind}});
  return groupings;
}

absl::Status WriteMemory(Trace* trace, const std::string& name, const MemoryOptions& options, std::ostream* out,
                         std::vector<std::string>* notes) {
  // Threads' names are complete only after a first pass.
  if (absl::Status s = trace->Count().status(); !s.ok()) return s;
  if (absl::Status s = CheckWeight(*trace, TreeWeight::kMemory, name); !s.ok()) return s;
  if (options.by == MemoryBy::kLine && !HasStacks(*trace)) return NothingLabelled(LabelBy::kLine, name + " has");
  MemoryReport report(trace, options);
  if (absl::Status s = report.Read(); !s.ok()) return s;
  if (options.by == MemoryBy::kModule && !HasModules(*trace)) return NothingLabelled(LabelBy::kModule, name + " has");
  for (const std::string& text : NotSeen(*trace, "memory ")) {
    notes->push_back(absl::StrCat(name, ": not seen: ", text));
  }
  for (const std::string& why : GatherFacts(*trace).stopped) {
    notes->push_back(absl::StrCat(name, ": memory after the recording ended is missing: ", why));
  }
  options.json ? report.WriteJson(out) : report.WriteText(out);
  return out->good() ? absl::OkStatus() : absl::AbortedError("cannot write the report on memory");
}

}  // namespace torchtrace
