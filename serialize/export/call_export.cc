#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "serialize/export/exporter.h"
#include "serialize/export/exports.h"
#include "serialize/export/table_facts.h"
#include "serialize/export/tag_texts.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/trace/launched_work.h"
#include "serialize/trace/run_facts.h"
#include "serialize/where/selected_calls.h"

namespace torchtrace {
namespace {

enum CallColumn : uint8_t {
  kCall,
  kParent,
  kDepth,
  kLevel,
  kApi,
  kConfig,
  kArgs,
  kKwargs,
  kShapes,
  kDtypes,
  kStart,
  kDuration,
  kOutcome,
  kException,
  kProcess,
  kThread,
  kTrace,
  kHost,
  kPid,
  kRank,
  kFile,
  kLine,
  kTags,
  kDevice,
  kModule,
  kStep,
  kSizeM,
  kSizeN,
  kSizeK,
  kFlops,
  kBytes,
  kCallColumns,
};

// A call from its entry on.
struct Pending {
  uint64_t call = 0;
  uint64_t parent = kNoCall;
  int64_t start_ns = 0;
  int64_t duration_ns = kNullCell;
  int64_t device_ns = kNullCell;
  int64_t outcome = kNullCell;  // once it has ended
  int64_t exception = kNullCell;
  ConfigId config = kLostId;
  StackId stack = kNoStack;
  int64_t module = kNullCell;
  int64_t step = kNullCell;
  uint32_t tags = kNoTags;
  uint32_t process = 0;
  uint32_t thread = 0;
  uint32_t depth = 0;
  bool wanted = false;
  bool returned = false;
};

class CallExport {
 public:
  CallExport(Trace* trace, const std::string& label, const CallExportOptions& options, TableWriter* table)
      : trace_(trace),
        label_(label),
        options_(options),
        table_(table),
        stack_text_(*trace),
        tag_texts_(trace),
        steps_(trace),
        selected_(trace, options.selection),
        returned_(table->Intern("returned")),
        raised_(table->Intern("raised")),
        never_returned_(table->Intern("never returned")),
        row_(kCallColumns) {}

  absl::Status Run() {
    if (absl::Status s = selected_.Prepare(); !s.ok()) return s;
    if (absl::Status s = device_times_.Prepare(trace_); !s.ok()) return s;
    if (options_.facts != nullptr) {
      if (absl::Status s = trace_->Count().status(); !s.ok()) return s;
      options_.facts->Begin(*trace_);
    }
    const absl::Status read = trace_->Read([this](const CallRecord& call) -> absl::Status {
      device_ns_ = device_times_.Take(call).value_or(kNullCell);
      return call.kind == CallRecord::kEnter ? Enter(call) : End(call);
    });
    if (!read.ok()) return read;
    // Calls that are still open never returned.
    for (; !late_.empty(); late_.erase(late_.begin())) {
      if (absl::Status s = Write(late_.begin()->second); !s.ok()) return s;
    }
    for (const Pending& call : waiting_) {
      if (absl::Status s = Write(call); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

 private:
  struct ConfigCells {
    bool known = false;
    int64_t level = 0;
    int64_t api = 0;
    int64_t config = 0;
    std::vector<int64_t> arguments;
    SizeCells sizes;
  };
  struct ProcessCells {
    int64_t process = kNullCell;
    int64_t trace = kNullCell;
    int64_t host = kNullCell;
    int64_t pid = kNullCell;
    int64_t rank = kNullCell;
    bool clock = false;
  };

  const ConfigCells& CellsOfConfig(ConfigId config) {
    if (config >= configs_.size()) configs_.resize(config + config / 2 + 16);
    ConfigCells& cells = configs_[config];
    if (cells.known) return cells;
    cells.known = true;
    const std::string_view identity = trace_->identity(config);
    const Config parsed = ReadableConfig(identity);
    cells.level = parsed.level;
    cells.api = table_->Intern(FormatApi(parsed.api));
    cells.config = table_->Intern(FormatConfig(parsed));
    cells.arguments = ArgumentCells(parsed, table_);
    if (options_.facts != nullptr) cells.sizes = options_.facts->SizesOf(parsed);
    return cells;
  }

  // Of the calling line.
  int64_t CellOfFile(LineId line) {
    if (line >= files_.size()) files_.resize(line + line / 2 + 16, kNullCell);
    if (files_[line] == kNullCell) {
      const StackTable& stacks = trace_->stacks();
      files_[line] = table_->Intern(stack_text_.File(stacks.code(stacks.line(line).code).file));
    }
    return files_[line];
  }

  int64_t CellOfText(std::string_view text) { return text.empty() ? kNullCell : table_->Intern(text); }

  const ProcessCells& CellsOfProcess(uint32_t process) {
    while (processes_.size() <= process) {
      const ProcessInfo& info = trace_->processes()[processes_.size()];
      const ProcessOrigin origin = OriginOf(info, label_);
      ProcessCells& cells = processes_.emplace_back();
      cells.process = table_->Intern(ProcessName(info));
      cells.trace = table_->Intern(origin.label);
      if (!origin.host.empty()) cells.host = table_->Intern(origin.host);
      if (origin.pid >= 0) cells.pid = origin.pid;
      if (origin.rank >= 0) cells.rank = origin.rank;
      cells.clock = origin.clock;
    }
    return processes_[process];
  }

  absl::Status Enter(const CallRecord& record) {
    Pending& call = waiting_.emplace_back();
    call.call = record.call;
    call.parent = record.parent;
    call.start_ns = record.time_ns;
    call.config = record.config;
    call.process = record.process;
    call.thread = record.thread;
    call.depth = record.depth;
    call.stack = record.stack;
    call.tags = record.tags;
    call.step = steps_.Of(record);
    if (options_.facts != nullptr) call.module = CellOfText(options_.facts->ModuleOf(record));
    call.wanted = selected_.Wants(record);
    if (absl::Status s = WriteEnded(); !s.ok() || waiting_.size() <= options_.max_waiting_calls) return s;
    late_.emplace(waiting_.front().call, waiting_.front());
    waiting_.pop_front();
    return WriteEnded();
  }

  absl::Status End(const CallRecord& record) {
    selected_.Wants(record);
    // Calls are numbered in entry order, so a call's number gives its place in waiting_.
    const uint64_t first = waiting_.empty() ? UINT64_MAX : waiting_.front().call;
    if (record.call >= first && record.call - first < waiting_.size()) {
      SetEnd(record, &waiting_[record.call - first]);
      return WriteEnded();
    }
    const auto at = late_.find(record.call);
    if (at == late_.end()) return absl::OkStatus();
    SetEnd(record, &at->second);
    const absl::Status written = Write(at->second);
    late_.erase(at);
    return written;
  }

  void SetEnd(const CallRecord& record, Pending* call) const {
    const bool raised = record.kind == CallRecord::kRaise;
    call->duration_ns = record.duration_ns;
    call->device_ns = device_ns_;
    call->outcome = raised ? raised_ : returned_;
    call->returned = !raised;
    if (raised && !record.exception.empty()) call->exception = table_->Intern(record.exception);
  }

  // Writes the calls at the front whose end is known.
  absl::Status WriteEnded() {
    while (!waiting_.empty() && (!waiting_.front().wanted || waiting_.front().outcome != kNullCell)) {
      if (absl::Status s = Write(waiting_.front()); !s.ok()) return s;
      waiting_.pop_front();
    }
    return absl::OkStatus();
  }

  absl::Status Write(const Pending& call) {
    if (!call.wanted) return absl::OkStatus();
    const ConfigCells& config = CellsOfConfig(call.config);
    const ProcessCells& process = CellsOfProcess(call.process);
    row_[kCall] = static_cast<int64_t>(call.call);
    row_[kParent] = call.parent == kNoCall ? kNullCell : static_cast<int64_t>(call.parent);
    row_[kDepth] = call.depth;
    row_[kLevel] = config.level;
    row_[kApi] = config.api;
    row_[kConfig] = config.config;
    std::copy(config.arguments.begin(), config.arguments.end(), row_.begin() + kArgs);
    const bool timed = process.clock || call.start_ns != 0 || call.duration_ns > 0;
    row_[kStart] = timed ? call.start_ns : kNullCell;
    row_[kDuration] = timed ? call.duration_ns : kNullCell;
    row_[kOutcome] = call.outcome == kNullCell ? never_returned_ : call.outcome;
    row_[kException] = call.exception;
    row_[kProcess] = process.process;
    row_[kThread] = call.thread;
    row_[kTrace] = process.trace;
    row_[kHost] = process.host;
    row_[kPid] = process.pid;
    row_[kRank] = process.rank;
    row_[kFile] = row_[kLine] = kNullCell;
    if (call.stack != kNoStack) {
      const LineId line = trace_->stacks().calling_line(call.stack);
      row_[kFile] = CellOfFile(line);
      if (trace_->stacks().line(line).line > 0) row_[kLine] = trace_->stacks().line(line).line;
    }
    row_[kTags] = CellOfText(tag_texts_.Of(call.tags));
    row_[kDevice] = call.device_ns;
    row_[kModule] = call.module;
    row_[kStep] = call.step;
    row_[kSizeM] = config.sizes.m;
    row_[kSizeN] = config.sizes.n;
    row_[kSizeK] = config.sizes.k;
    row_[kFlops] = call.returned ? CostCell(config.sizes.cost.flops) : kNullCell;
    row_[kBytes] = call.returned ? CostCell(config.sizes.cost.bytes) : kNullCell;
    return table_->Add(row_);
  }

  Trace* const trace_;
  const std::string label_;
  const CallExportOptions& options_;
  TableWriter* const table_;
  const StackText stack_text_;
  TagTexts tag_texts_;
  StepCells steps_;
  SelectedCalls selected_;
  DeviceTimesOfCalls device_times_;
  int64_t device_ns_ = kNullCell;  // of the call that ends
  const int64_t returned_;
  const int64_t raised_;
  const int64_t never_returned_;
  std::vector<ConfigCells> configs_;     // by ConfigId
  std::vector<ProcessCells> processes_;  // by index
  std::vector<int64_t> files_;           // by LineId
  std::deque<Pending> waiting_;          // in program order, without gaps
  std::map<uint64_t, Pending> late_;     // open for longer, by number
  std::vector<int64_t> row_;
};

}  // namespace

std::vector<Column> CallColumns() {
  return {{"call", ColumnType::kCounter},
          {"parent", ColumnType::kCounter},
          {"depth", ColumnType::kInt},
          {"level", ColumnType::kInt},
          {"api", ColumnType::kText},
          {"config", ColumnType::kText},
          {"args", ColumnType::kJson},
          {"kwargs", ColumnType::kJson},
          {"shapes", ColumnType::kJson},
          {"dtypes", ColumnType::kJson},
          {"start_ns", ColumnType::kCounter},
          {"duration_ns", ColumnType::kCounter},
          {"outcome", ColumnType::kText},
          {"exception", ColumnType::kText},
          {"process", ColumnType::kText},
          {"thread", ColumnType::kInt},
          {"trace", ColumnType::kText},
          {"host", ColumnType::kText},
          {"pid", ColumnType::kInt},
          {"rank", ColumnType::kInt},
          {"file", ColumnType::kText},
          {"line", ColumnType::kInt},
          {"tags", ColumnType::kJson},
          {"device_ns", ColumnType::kCounter},
          {"module", ColumnType::kText},
          {"step", ColumnType::kInt},
          {"M", ColumnType::kInt},
          {"N", ColumnType::kInt},
          {"K", ColumnType::kInt},
          {"flops", ColumnType::kInt},
          {"bytes", ColumnType::kInt}};
}

absl::Status ExportTimeline(const std::vector<LabelledTrace>& traces, const CallSelection& selection, CallSink* sink) {
  for (const LabelledTrace& labelled : traces) {
    const absl::StatusOr<std::unique_ptr<Trace>> trace = labelled.open();
    if (!trace.ok()) return trace.status();
    if (absl::Status s = (*trace)->Count().status(); !s.ok()) return s;
    if (absl::Status s = sink->Begin(trace->get(), labelled.label); !s.ok()) return s;
    SelectedCalls selected(trace->get(), selection);
    if (absl::Status s = selected.Prepare(); !s.ok()) return s;
    const RecordsShown shown = sink->reads(**trace);
    const LaterNotesShown later(trace->get(), shown.later);
    const MemoryShown memory(trace->get(), shown.memory);
    const absl::Status read = (*trace)->Read([&](const CallRecord& call) {
      const bool of_call = call.kind != CallRecord::kLater && call.kind != CallRecord::kMemory;
      return of_call && selected.Wants(call) ? sink->Add(call) : sink->AddOther(call);
    });
    if (!read.ok()) return read;
    if (absl::Status s = sink->End(); !s.ok()) return s;
    if (labelled.done != nullptr) labelled.done(**trace);
  }
  return absl::OkStatus();
}

absl::Status ExportCalls(Trace* trace, const std::string& trace_label, const CallExportOptions& options,
                         TableWriter* table) {
  return CallExport(trace, trace_label, options, table).Run();
}

}  // namespace torchtrace
