#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "serialize/apis/apis.h"
#include "serialize/edit/edit.h"
#include "serialize/edit/later_notes.h"
#include "serialize/log/log_metadata.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

using nlohmann::json;

constexpr char kEndIsLost[] = "torchtrace.EndIsLost";

class Filter {
 public:
  Filter(Trace* trace, const FilterOptions& options, TraceWriter* writer)
      : trace_(trace), options_(options), writer_(writer), selector_(trace, options), later_(writer) {}

  absl::StatusOr<FilterReport> Run() {
    // Metadata, threads and configs are only complete after a first pass.
    if (absl::Status s = trace_->Count().status(); !s.ok()) return s;
    if (absl::Status s = selector_.Prepare(); !s.ok()) return s;
    if (absl::Status s = AddProcesses(); !s.ok()) return s;
    const LaterNotesShown shown(trace_);
    const MemoryShown shown_too(trace_);
    const absl::Status read = trace_->Read([this](const CallRecord& record) -> absl::Status {
      switch (record.kind) {
        case CallRecord::kEnter:
          return Enter(record);
        case CallRecord::kLater:
          return Later(record);
        case CallRecord::kMemory:
          return Memory(record);
        default:
          return End(record);
      }
    });
    if (!read.ok()) return read;
    if (absl::Status s = FilterCounts(); !s.ok()) return s;
    return report_;
  }

 private:
  struct OpenCall {
    uint64_t call;
    uint32_t depth;
    VariantId variant;
    uint32_t tags;
    StackId stack;
    RecordFacts facts;
    std::string notes;
    int64_t time_ns;
    bool written;
  };
  struct ThreadState {
    bool accepted = false;  // its process is written, and --thread accepts it
    uint32_t process = 0;   // in the new trace
    uint64_t number = 0;
    uint64_t last_time = 0;
    std::vector<OpenCall> open;  // outermost first
    size_t unwritten = 0;        // of `open`
  };

  absl::Status AddProcesses() {
    for (const ProcessInfo& process : trace_->processes()) {
      processes_.push_back(kNotWritten);
      if (!selector_.AcceptsProcess(process)) continue;
      const absl::StatusOr<uint32_t> added = writer_->AddProcess(MetadataOf(process));
      if (!added.ok()) return added.status();
      processes_.back() = *added;
    }
    return absl::OkStatus();
  }

  // The process's metadata, with a note that the trace has only a part of its calls.
  json MetadataOf(const ProcessInfo& process) const {
    const bool usable = process.metadata != nullptr && process.metadata->is_object();
    json metadata = InNanoseconds(usable ? *process.metadata : json::object());
    if (!metadata.contains("source")) metadata["source"] = process.path;
    // The process that has them may be left out. The writer writes them only once.
    if (const json* const operators = FindOperators(*trace_, process); operators != nullptr) {
      metadata["operators"] = *operators;
    }
    if (!process.damage.sentences.empty()) metadata["damage"] = FormatSourceDamage(process.damage);
    if (const auto end = metadata.find("end"); end != metadata.end() && end->is_object()) {
      if (!process.dropped.empty()) (*end)["dropped"] = process.dropped;
      end->erase("counted");
      if (const auto threads = end->find("threads"); threads != end->end() && threads->is_array()) {
        // Readers would expect this many calls.
        for (json& thread : *threads) {
          if (thread.is_object()) thread.erase("calls");
        }
      }
    }
    json& filtered = metadata["filtered"];
    if (!filtered.is_array()) filtered = json::array();
    filtered.push_back(options_.description);
    return metadata;
  }

  ThreadState& ThreadOf(const CallRecord& record) {
    const std::pair<uint32_t, uint32_t> key(record.process, record.thread);
    if (last_ != nullptr && key == last_key_) return *last_;
    const auto [at, fresh] = threads_.try_emplace(key);
    last_key_ = key;
    last_ = &at->second;
    if (fresh) {
      const ProcessInfo& process = trace_->processes()[record.process];
      last_->process = processes_[record.process];
      last_->number = record.thread;
      last_->accepted = last_->process != kNotWritten && selector_.AcceptsThread(process, record.thread);
      const ThreadInfo* const thread = last_->accepted ? FindThread(process, record.thread) : nullptr;
      if (thread != nullptr) writer_->NameThread(last_->process, thread->number, thread->os_id, thread->name);
    }
    return *last_;
  }

  absl::Status Enter(const CallRecord& record) {
    ThreadState& thread = ThreadOf(record);
    ++report_.read;
    // Calls at this depth and deeper have ended; their ends are missing.
    if (absl::Status s = CloseLost(
            &thread, [&](const OpenCall& call) { return call.depth >= record.depth; }, record.time_ns);
        !s.ok()) {
      return s;
    }
    const bool keeps = thread.accepted && selector_.AcceptsCall(record);
    if (keeps && options_.with_parents && thread.unwritten > 0) {
      for (OpenCall& parent : thread.open) {
        if (parent.written) continue;
        parent.written = true;
        ++report_.parents;
        if (absl::Status s = WriteEnter(&thread, parent); !s.ok()) return s;
      }
      thread.unwritten = 0;
    }
    if (thread.accepted) {
      later_.AddCall(thread.process, thread.number, record.call,
                     thread.open.empty() ? kNoCall : thread.open.back().call);
    }
    thread.open.push_back({record.call, record.depth, record.variant, record.tags, record.stack, record.facts,
                           std::string(record.notes), record.time_ns, keeps});
    if (keeps) return WriteEnter(&thread, thread.open.back());
    ++thread.unwritten;
    return absl::OkStatus();
  }

  absl::Status End(const CallRecord& record) {
    ThreadState& thread = ThreadOf(record);
    absl::Status closed =
        CloseLost(&thread, [&](const OpenCall& call) { return call.call > record.call; }, record.time_ns);
    if (!closed.ok()) return closed;
    if (thread.open.empty() || thread.open.back().call != record.call) return absl::OkStatus();
    const bool written = thread.open.back().written;
    thread.open.pop_back();
    if (!written) {
      --thread.unwritten;
      return absl::OkStatus();
    }
    const uint64_t time = TimeOf(&thread, record.time_ns);
    return record.kind == CallRecord::kRaise
               ? writer_->Raise(thread.process, thread.number, time, record.exception, record.result.written)
               : writer_->Leave(thread.process, thread.number, time, record.result);
  }

  absl::Status Later(const CallRecord& record) {
    ThreadState& thread = ThreadOf(record);
    return later_.Write(thread.process, thread.number, TimeOf(&thread, record.time_ns), record);
  }

  // Of calls that are left out too: what is alive is known only if all ends are.
  absl::Status Memory(const CallRecord& record) {
    ThreadState& thread = ThreadOf(record);
    if (!thread.accepted) return absl::OkStatus();
    return writer_->Memory(thread.process, thread.number, TimeOf(&thread, record.time_ns), record.memory);
  }

  absl::Status FilterCounts() {
    return trace_->ReadCounts([this](const CallRecord& record) -> absl::Status {
      if (record.kind != CallRecord::kEnter) return absl::OkStatus();
      report_.read += record.count;
      const uint32_t process = processes_[record.process];
      if (process == kNotWritten || options_.TellsEqualCallsApart() || !selector_.Accepts(record)) {
        return absl::OkStatus();
      }
      report_.kept += record.count;
      return writer_->Count(process, trace_->identity(record.config), trace_->facets(record.variant), record.count);
    });
  }

  // Closes open calls whose ends are missing, from the innermost on, while `lost` returns true.
  template <typename Lost>
  absl::Status CloseLost(ThreadState* thread, Lost lost, int64_t time_ns) {
    while (!thread->open.empty() && lost(thread->open.back())) {
      const bool written = thread->open.back().written;
      thread->open.pop_back();
      if (!written) {
        --thread->unwritten;
        continue;
      }
      const absl::Status status = writer_->Raise(thread->process, thread->number, TimeOf(thread, time_ns), kEndIsLost);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status WriteEnter(ThreadState* thread, const OpenCall& call) {
    ++report_.kept;
    writer_->Tag(thread->process, thread->number, trace_->tags(call.tags), trace_->steps(call.tags));
    writer_->Stack(thread->process, thread->number, trace_->stacks(), call.stack);
    writer_->Facts(thread->process, thread->number, call.facts);
    writer_->Notes(thread->process, thread->number, call.notes);
    later_.Written(thread->process, thread->number, call.call);
    return writer_->Enter(thread->process, thread->number, TimeOf(thread, call.time_ns),
                          trace_->identity(trace_->config_of(call.variant)), trace_->facets(call.variant));
  }

  // Times of a thread must not decrease in the output, even if the log is damaged.
  static uint64_t TimeOf(ThreadState* thread, int64_t time_ns) {
    thread->last_time = std::max(thread->last_time, static_cast<uint64_t>(std::max<int64_t>(0, time_ns)));
    return thread->last_time;
  }

  static constexpr uint32_t kNotWritten = UINT32_MAX;

  Trace* const trace_;
  const FilterOptions& options_;
  TraceWriter* const writer_;
  CallSelector selector_;
  LaterNotesWriter later_;
  FilterReport report_;
  std::vector<uint32_t> processes_;  // in the new trace; kNotWritten: none
  std::map<std::pair<uint32_t, uint32_t>, ThreadState> threads_;
  std::pair<uint32_t, uint32_t> last_key_;
  ThreadState* last_ = nullptr;
};

}  // namespace

absl::StatusOr<FilterReport> FilterTrace(Trace* trace, const FilterOptions& options, TraceWriter* writer) {
  return Filter(trace, options, writer).Run();
}

}  // namespace torchtrace
