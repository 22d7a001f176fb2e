// Calls as a trace of Perfetto (docs/EXPORT.md): protocol buffers, whose texts are written once. The names of fields
// are those of perfetto_trace.proto.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/bytes.h"
#include "serialize/base/text.h"
#include "serialize/export/exporter.h"
#include "serialize/export/exports.h"
#include "serialize/export/span_tracks.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/log/log_metadata.h"
#include "serialize/model/config.h"
#include "serialize/model/device_work.h"
#include "serialize/model/levels.h"
#include "serialize/trace/launched_work.h"
#include "serialize/trace/node_makers.h"
#include "serialize/trace/recent_calls.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

// Of TracePacket.
enum PacketField : uint32_t {
  kClockSnapshot = 6,
  kTimestamp = 8,
  kSequenceId = 10,
  kTrackEvent = 11,
  kInternedData = 12,
  kSequenceFlags = 13,
  kTrackDescriptor = 60,
};
// Of InternedData, which numbers texts of each kind.
enum InternedField : uint32_t { kEventCategories = 1, kEventNames = 2, kAnnotationNames = 3, kAnnotationTexts = 29 };
// Of TrackEvent.
enum EventField : uint32_t {
  kCategoryIids = 3,
  kDebugAnnotations = 4,
  kType = 9,
  kNameIid = 10,
  kTrackUuid = 11,
  kFlowIds = 47,
  kTerminatingFlowIds = 48,
};
constexpr uint64_t kSliceBegin = 1, kSliceEnd = 2;  // TrackEvent.Type
constexpr uint64_t kStateCleared = 1, kNeedsState = 2;
constexpr uint64_t kOnlySequence = 1;
constexpr uint64_t kRealtime = 1, kBoottime = 6;  // BuiltinClock

void PutVarint(uint32_t field, uint64_t value, std::string* out) {
  AppendVarint(uint64_t{field} << 3, out);
  AppendVarint(value, out);
}

void PutBytes(uint32_t field, std::string_view bytes, std::string* out) {
  AppendVarint((uint64_t{field} << 3) | 2, out);
  AppendVarint(bytes.size(), out);
  out->append(bytes);
}

void PutFixed64(uint32_t field, uint64_t value, std::string* out) {
  AppendVarint((uint64_t{field} << 3) | 1, out);
  for (int i = 0; i < 8; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

// Texts of one kind. Packets say what a number means before they use it.
class InternedTexts {
 public:
  explicit InternedTexts(uint32_t field) : field_(field) {}

  // `news` receives a new text's entry of InternedData.
  uint64_t Number(std::string_view text, std::string* news) {
    const auto [at, fresh] = numbers_.try_emplace(std::string(text), numbers_.size() + 1);
    if (fresh) {
      std::string entry;
      PutVarint(1, at->second, &entry);
      PutBytes(2, text, &entry);
      PutBytes(field_, entry, news);
    }
    return at->second;
  }

 private:
  const uint32_t field_;
  absl::flat_hash_map<std::string, uint64_t> numbers_;
};

class PerfettoSink final : public CallSink {
 public:
  // Times of several traces are those of the day: the second one may be earlier.
  PerfettoSink(std::ostream* out, const ExportOptions& options) : out_(out), several_(options.traces.size() > 1) {}

  absl::Status Begin(Trace* trace, std::string_view label) override {
    trace_ = trace;
    configs_.clear();
    node_makers_ = NodeMakers<uint64_t>();
    work_names_.emplace(*trace);
    spans_.emplace(trace);
    several_models_ = SeveralModels::In(*trace);
    processes_.clear();
    std::vector<ProcessClock> clocks;
    for (const ProcessInfo& info : trace->processes()) {
      if (info.calls > 0 && !info.known.has_clock) {
        return absl::FailedPreconditionError(absl::StrCat(std::string(label), " has no times for the calls of ",
                                                          ProcessName(info), ", which a timeline needs"));
      }
      clocks.push_back(ReadProcessClock(*info.metadata));
    }
    const ProcessOrder order = OrderProcesses(clocks);
    processes_.resize(clocks.size());
    for (const std::vector<uint32_t>& group : order.groups) {
      for (const uint32_t i : group) {
        processes_[i].offset_ns = clocks[group[0]].realtime_offset_ns - order.shift_ns[group[0]] + order.shift_ns[i];
      }
    }
    if (!std::exchange(begun_, true)) {
      if (!clocks.empty() && !several_) base_ns_ = clocks[0].origin_ns + processes_[0].offset_ns;
      WriteHead();
    }
    for (size_t i = 0; i < processes_.size(); ++i) Introduce(i, label);
    return WriteBlocks();
  }

  RecordsShown reads(const Trace& trace) const override { return {.later = HasDeviceTimes(trace)}; }

  absl::Status Add(const CallRecord& record) override {
    if (record.kind == CallRecord::kLater) return AddOther(record);
    spans_->Add(record, /*shown=*/true);
    Process& process = processes_[record.process];
    process.last_ns = std::max(process.last_ns, record.time_ns);
    Thread& thread = ThreadOf(record);
    if (record.kind == CallRecord::kEnter) {
      thread.open.push_back({record.call, record.config});
      if (trace_->shows_later()) thread.recent.Add(record.call, {record.call, record.time_ns});
      BeginCall(record, process, thread);
      return WriteBlocks();
    }
    // The end of a call inside this one may be lost.
    while (!thread.open.empty() && thread.open.back().call > record.call) {
      EndCall(process, &thread, record.time_ns, "its end is lost");
    }
    if (thread.open.empty() || thread.open.back().call != record.call) return absl::OkStatus();
    EndCall(process, &thread, record.time_ns, "",
            record.kind == CallRecord::kRaise ? record.exception : std::string_view());
    return WriteBlocks();
  }

  // What a call launched that isn't shown is of the shown one around it.
  absl::Status AddOther(const CallRecord& record) override {
    if (record.kind == CallRecord::kEnter) spans_->Add(record, /*shown=*/false);
    if (!trace_->shows_later()) return absl::OkStatus();
    const auto thread = processes_[record.process].threads.find(record.thread);
    if (thread == processes_[record.process].threads.end()) return absl::OkStatus();
    if (record.kind == CallRecord::kEnter && !thread->second.open.empty()) {
      thread->second.recent.Add(record.call, {thread->second.open.back().call, record.time_ns});
    } else if (record.kind == CallRecord::kLater && !record.device_work.empty()) {
      WriteWork(record, &thread->second);
      return WriteBlocks();
    }
    return absl::OkStatus();
  }

  absl::Status End() override {
    for (Process& process : processes_) {
      for (auto& [number, thread] : process.threads) {
        while (!thread.open.empty()) EndCall(process, &thread, process.last_ns, "never returned");
      }
    }
    for (const TimelineSpan& span : spans_->Finish()) {
      Process& process = processes_[span.process];
      const bool step = span.thread == kNoThread;
      uint64_t& track = step ? process.steps : process.threads[span.thread].tags;
      if (track == 0) {
        track = step ? ChildTrack(process.track, "steps")
                     : ChildTrack(process.track, absl::StrCat("thread ", span.thread, " tags"));
      }
      WriteSlice(process, track, step ? "user_annotation" : "tags", span.name, span.start_ns, span.end_ns);
    }
    trace_ = nullptr;
    spans_.reset();
    return Write();
  }

  absl::Status Finish() override {
    if (!begun_) WriteHead();
    if (absl::Status s = Write(); !s.ok()) return s;
    return FinishStream(out_);
  }

 private:
  static constexpr size_t kBlockBytes = 64 << 10;

  struct OpenCall {
    uint64_t call;
    ConfigId config;
  };
  struct Launcher {
    uint64_t shown;  // a shown call
    int64_t start_ns;
  };
  // 0: the track isn't there yet.
  struct Thread {
    uint64_t track = 0, modules = 0, tags = 0, launches = 0;
    std::vector<OpenCall> open;
    RecentCalls<Launcher> recent;
  };
  struct Process {
    uint64_t track = 0, steps = 0;
    int64_t pid = 0;
    int64_t offset_ns = 0;  // added to get the time of day
    int64_t last_ns = std::numeric_limits<int64_t>::min();
    std::map<uint32_t, Thread> threads;                        // by number
    std::map<uint8_t, uint64_t> devices;                       // tracks
    std::map<std::pair<uint8_t, uint64_t>, uint64_t> streams;  // tracks
    std::set<int64_t> tids;
  };
  // Numbers of the texts of a config's calls.
  struct ConfigTexts {
    bool known = false;
    bool module = false;
    uint64_t category = 0, name = 0, text = 0;
    int level = 0;
  };

  uint64_t TimeOf(const Process& process, int64_t time_ns) const {
    return static_cast<uint64_t>(std::max<int64_t>(time_ns + process.offset_ns - base_ns_, 0));
  }

  // Writes a packet, with what is new in interned data.
  void WritePacket(std::string* packet, uint64_t flags = kNeedsState) {
    PutVarint(kSequenceId, kOnlySequence, packet);
    PutVarint(kSequenceFlags, flags, packet);
    if (!news_.empty()) PutBytes(kInternedData, news_, packet);
    news_.clear();
    PutBytes(1, *packet, &text_);
    packet->clear();
  }

  absl::Status WriteBlocks() { return text_.size() < kBlockBytes ? absl::OkStatus() : Write(); }
  absl::Status Write() {
    out_->write(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.clear();
    return StreamStatus(*out_);
  }

  // Times are since base_ns_: what that is of the day.
  void WriteHead() {
    std::string packet, snapshot;
    for (const auto& [clock, time] : {std::pair(kBoottime, int64_t{0}), std::pair(kRealtime, base_ns_)}) {
      std::string clock_text;
      PutVarint(1, clock, &clock_text);
      PutVarint(2, static_cast<uint64_t>(std::max<int64_t>(time, 0)), &clock_text);
      PutBytes(1, clock_text, &snapshot);
    }
    PutVarint(kTimestamp, 0, &packet);
    PutBytes(kClockSnapshot, snapshot, &packet);
    WritePacket(&packet, kStateCleared);
  }

  void WriteTrack(std::string_view descriptor) {
    std::string packet;
    PutBytes(kTrackDescriptor, descriptor, &packet);
    WritePacket(&packet);
  }

  uint64_t ChildTrack(uint64_t parent, std::string_view name) {
    const uint64_t uuid = ++tracks_;
    std::string descriptor;
    PutVarint(1, uuid, &descriptor);
    PutBytes(2, name, &descriptor);
    PutVarint(5, parent, &descriptor);
    WriteTrack(descriptor);
    return uuid;
  }

  void Introduce(size_t index, std::string_view label) {
    const ProcessInfo& info = trace_->processes()[index];
    Process& process = processes_[index];
    const ProcessOrigin origin = OriginOf(info, std::string(label));
    // Processes on different machines may share a pid, and pids have 32 bits.
    process.pid = std::clamp<int64_t>(origin.pid, 0, 1 << 30);
    while (!pids_.insert(process.pid).second) process.pid = std::max<int64_t>(*pids_.rbegin() + 1, 1 << 22);
    process.track = ++tracks_;
    std::string descriptor, of_process;
    PutVarint(1, static_cast<uint64_t>(process.pid), &of_process);
    PutVarint(3, static_cast<uint64_t>(origin.rank >= 0 ? origin.rank : static_cast<int64_t>(index)), &of_process);
    PutBytes(6, PlainLine(ProcessName(info)), &of_process);
    if (origin.rank >= 0) PutBytes(8, absl::StrCat("rank ", origin.rank), &of_process);
    if (!origin.host.empty()) PutBytes(8, PlainLine(origin.host), &of_process);
    PutVarint(1, process.track, &descriptor);
    PutBytes(3, of_process, &descriptor);
    WriteTrack(descriptor);
  }

  Thread& ThreadOf(const CallRecord& record) {
    Process& process = processes_[record.process];
    Thread& thread = process.threads[record.thread];
    if (thread.track != 0) return thread;
    const ThreadInfo* const info = FindThread(trace_->processes()[record.process], record.thread);
    int64_t tid = info == nullptr || info->os_id == 0 ? record.thread : static_cast<int64_t>(info->os_id);
    // A later thread may reuse an earlier one's number.
    while (!process.tids.insert(tid).second) tid = *process.tids.rbegin() + 1;
    const std::string name = info == nullptr || info->name.empty()
                                 ? absl::StrCat("thread ", record.thread)
                                 : absl::StrCat("thread ", record.thread, " (", PlainLine(info->name), ")");
    thread.track = ++tracks_;
    std::string descriptor, of_thread;
    PutVarint(1, static_cast<uint64_t>(process.pid), &of_thread);
    PutVarint(2, static_cast<uint64_t>(tid), &of_thread);
    PutBytes(5, name, &of_thread);
    PutVarint(1, thread.track, &descriptor);
    PutVarint(5, process.track, &descriptor);
    PutBytes(4, of_thread, &descriptor);
    WriteTrack(descriptor);
    return thread;
  }

  const ConfigTexts& TextsOf(ConfigId id) {
    if (id >= configs_.size()) configs_.resize(id + id / 2 + 16);
    ConfigTexts& texts = configs_[id];
    if (texts.known) return texts;
    texts.known = true;
    const Config config = ReadableConfig(trace_->identity(id));
    const ModuleLabel label = ModuleLabelOf(config);
    texts.module = !label.empty();
    texts.level = config.level;
    const std::string name = texts.module ? several_models_ ? label.WholeText() : label.Text() : FormatApi(config.api);
    texts.name = names_.Number(PlainLine(name), &news_);
    texts.category = categories_.Number(texts.module ? "module" : DescribeLevel(config.level), &news_);
    texts.text = texts_.Number(FormatConfig(config), &news_);
    return texts;
  }

  void Annotate(std::string_view name, uint64_t number, std::string* event) {
    std::string annotation;
    PutVarint(1, annotation_names_.Number(name, &news_), &annotation);
    PutVarint(3, number, &annotation);
    PutBytes(kDebugAnnotations, annotation, event);
  }
  void AnnotateWithText(std::string_view name, uint64_t text, std::string* event) {
    std::string annotation;
    PutVarint(1, annotation_names_.Number(name, &news_), &annotation);
    PutVarint(17, text, &annotation);
    PutBytes(kDebugAnnotations, annotation, event);
  }

  static void StartEvent(uint64_t type, uint64_t track, std::string* event) {
    PutVarint(kType, type, event);
    PutVarint(kTrackUuid, track, event);
  }

  void WriteEvent(uint64_t time, std::string_view event) {
    std::string packet;
    PutVarint(kTimestamp, time, &packet);
    PutBytes(kTrackEvent, event, &packet);
    WritePacket(&packet);
  }

  void BeginCall(const CallRecord& record, const Process& process, Thread& thread) {
    const ConfigTexts& texts = TextsOf(record.config);
    std::string event;
    StartEvent(kSliceBegin, thread.track, &event);
    PutVarint(kCategoryIids, texts.category, &event);
    PutVarint(kNameIid, texts.name, &event);
    Annotate("call", record.call, &event);
    Annotate("level", static_cast<uint64_t>(texts.level), &event);
    AnnotateWithText("config", texts.text, &event);
    if (const std::string_view tags = spans_->TagsOf(record.tags); !tags.empty()) {
      AnnotateWithText("tags", texts_.Number(tags, &news_), &event);
    }
    // From a forward call to its backward node.
    if (record.facts.sequence >= 0) {
      Annotate("sequence", static_cast<uint64_t>(record.facts.sequence), &event);
      const uint64_t* const forward = node_makers_.Find(record.process, record.facts);
      if (forward != nullptr) PutFixed64(kTerminatingFlowIds, *forward, &event);
      if (MakesNode(record.facts)) {
        PutFixed64(kFlowIds, ++flows_, &event);
        node_makers_.Add(record.process, record.facts, flows_);
      }
    }
    const uint64_t time = TimeOf(process, record.time_ns);
    WriteEvent(time, event);
    if (!texts.module) return;
    if (thread.modules == 0) {
      thread.modules = ChildTrack(process.track, absl::StrCat("thread ", record.thread, " modules"));
    }
    event.clear();
    StartEvent(kSliceBegin, thread.modules, &event);
    PutVarint(kCategoryIids, texts.category, &event);
    PutVarint(kNameIid, texts.name, &event);
    WriteEvent(time, event);
  }

  void EndCall(const Process& process, Thread* thread, int64_t end_ns, std::string_view outcome,
               std::string_view exception = {}) {
    const OpenCall call = thread->open.back();
    thread->open.pop_back();
    const uint64_t time = TimeOf(process, end_ns);
    std::string event;
    StartEvent(kSliceEnd, thread->track, &event);
    if (!outcome.empty()) AnnotateWithText("outcome", texts_.Number(outcome, &news_), &event);
    if (!exception.empty()) AnnotateWithText("exception", texts_.Number(exception, &news_), &event);
    WriteEvent(time, event);
    if (!TextsOf(call.config).module) return;
    event.clear();
    StartEvent(kSliceEnd, thread->modules, &event);
    WriteEvent(time, event);
  }

  // `more`: of the slice's event.
  void WriteSlice(const Process& process, uint64_t track, std::string_view category, std::string_view name,
                  int64_t start_ns, int64_t end_ns, std::string_view more = {}) {
    std::string event;
    StartEvent(kSliceBegin, track, &event);
    PutVarint(kCategoryIids, categories_.Number(category, &news_), &event);
    PutVarint(kNameIid, names_.Number(PlainLine(name), &news_), &event);
    event += more;
    WriteEvent(TimeOf(process, start_ns), event);
    event.clear();
    StartEvent(kSliceEnd, track, &event);
    WriteEvent(TimeOf(process, end_ns), event);
  }

  // What launched it, and what ran on the device's stream.
  void WriteWork(const CallRecord& record, Thread* thread) {
    Process& process = processes_[record.process];
    const Launcher* const launcher = thread->recent.Find(record.call);
    if (launcher == nullptr) return;
    ReadDeviceWork(record.device_work, &work_);
    for (const DeviceWork& work : work_) {
      uint64_t& device = process.devices[work.device];
      if (device == 0) device = ChildTrack(process.track, absl::StrCat("GPU ", int{work.device}));
      uint64_t& stream = process.streams[{work.device, work.stream}];
      if (stream == 0) stream = ChildTrack(device, absl::StrCat("stream ", work.stream));
      if (thread->launches == 0) {
        thread->launches = ChildTrack(process.track, absl::StrCat("thread ", record.thread, " launches"));
      }
      const int64_t launch_ns = work.launched_before_ns != 0 ? work.start_ns - work.launched_before_ns
                                                             : std::min(launcher->start_ns, work.start_ns);
      std::string from, to;
      Annotate("call", launcher->shown, &from);
      to = from;
      PutFixed64(kFlowIds, ++flows_, &from);
      PutFixed64(kTerminatingFlowIds, flows_, &to);
      const std::string& name = work_names_->Of(record.process, work);
      WriteSlice(process, thread->launches, "launch", name, launch_ns, launch_ns + work.launch_ns, from);
      if (work.kind != DeviceWork::kKernel) Annotate("bytes", work.bytes, &to);
      WriteSlice(process, stream, DeviceWorkName(work.kind), name, work.start_ns, work.start_ns + work.duration_ns, to);
    }
  }

  std::ostream* const out_;
  const bool several_;  // traces
  std::string text_;    // to be written
  std::string news_;    // entries of InternedData for the next packet
  bool begun_ = false;
  int64_t base_ns_ = 0;
  uint64_t tracks_ = 0;
  uint64_t flows_ = 0;
  std::set<int64_t> pids_;
  InternedTexts categories_{kEventCategories}, names_{kEventNames}, annotation_names_{kAnnotationNames},
      texts_{kAnnotationTexts};
  // Of the trace being read.
  const Trace* trace_ = nullptr;
  bool several_models_ = false;
  std::vector<Process> processes_;    // by index
  std::vector<ConfigTexts> configs_;  // by ConfigId
  NodeMakers<uint64_t> node_makers_;  // flows
  std::optional<WorkNames> work_names_;
  std::optional<SpanTracks> spans_;
  std::vector<DeviceWork> work_;  // of the record
};

}  // namespace

extern const Exporter kPerfettoExporter;
const Exporter kPerfettoExporter = {
    .name = "perfetto",
    .help = "the same timeline for ui.perfetto.dev, much smaller",
    .suffixes = {"pftrace", "perfetto-trace"},
    .binary = true,
    .write = WritesCalls{[](std::ostream* out, const ExportOptions& options) -> std::unique_ptr<CallSink> {
      return std::make_unique<PerfettoSink>(out, options);
    }},
};

}  // namespace torchtrace
