#include "serialize/report/timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "serialize/forms/call_labels.h"
#include "serialize/model/device_work.h"
#include "serialize/trace/launched_work.h"
#include "serialize/trace/run_facts.h"
#include "serialize/trace/step_times.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// Deeper calls are not readable, and tracks would be higher than screens.
constexpr uint32_t kDeepest = 255;
constexpr size_t kMostTracks = 500;
constexpr double kMostTicks = UINT32_MAX;

// The first and the last moment of each group of processes whose times can be compared.
struct Span {
  int64_t from = std::numeric_limits<int64_t>::max();
  int64_t to = std::numeric_limits<int64_t>::min();

  void Add(int64_t ns) {
    from = std::min(from, ns);
    to = std::max(to, ns);
  }
};

// The times of one trace's records as ticks.
class TraceTimes {
 public:
  explicit TraceTimes(const Trace& trace) : trace_(trace) {}

  void Add(const CallRecord& record) {
    if (record.time_ns == 0) return;
    timed_ = true;
    spans_[GroupOf(record)].Add(NsOf(record));
  }
  // Work of devices that the call launched may end after the last call.
  void AddEnd(const CallRecord& record, int64_t ns) { spans_[GroupOf(record)].Add(ns + ShiftOf(record)); }

  bool timed() const { return timed_; }
  double LongestNs() const {
    double longest = 0;
    for (const auto& [group, span] : spans_) {
      longest = std::max(longest, static_cast<double>(span.to) - static_cast<double>(span.from));
    }
    return longest;
  }

  // Since the beginning of its group, in ticks of so many nanoseconds.
  uint32_t Ticks(const CallRecord& record, int64_t ns, double tick_ns) const {
    const auto at = spans_.find(GroupOf(record));
    if (at == spans_.end()) return 0;
    const double since = static_cast<double>(ns) - static_cast<double>(at->second.from);
    return static_cast<uint32_t>(std::clamp(since / tick_ns, 0.0, kMostTicks));
  }

  // Processes of other machines have other clocks. Traces of other formats don't know.
  int64_t ShiftOf(const CallRecord& record) const {
    if (trace_.log_source(record.process).log == nullptr) return 0;
    return trace_.OrderOf(record).time_ns - record.time_ns;
  }
  int64_t NsOf(const CallRecord& record) const { return record.time_ns + ShiftOf(record); }

 private:
  uint32_t GroupOf(const CallRecord& record) const { return trace_.OrderOf(record).group; }

  const Trace& trace_;
  bool timed_ = false;
  std::map<uint32_t, Span> spans_;
};

class TimelineReader {
 public:
  TimelineReader(const std::vector<StatsTrace>& traces, size_t most_rows)
      : traces_(traces), most_rows_(most_rows), labels_(LabelBy::kApi) {}

  absl::StatusOr<Timeline> Read() {
    std::vector<TraceTimes> times;
    double longest_ns = 0;
    bool timed = false;
    for (const StatsTrace& each : traces_) {
      TraceTimes& of_trace = times.emplace_back(*each.trace);
      const LaterNotesShown later(each.trace, HasDeviceTimes(*each.trace));
      const absl::Status read = each.trace->Read([&](const CallRecord& record) {
        of_trace.Add(record);
        work_.clear();
        if (record.kind == CallRecord::kLater) ReadDeviceWork(record.device_work, &work_);
        for (const DeviceWork& work : work_) of_trace.AddEnd(record, work.start_ns + work.duration_ns);
        return absl::OkStatus();
      });
      if (!read.ok()) return read;
      longest_ns = std::max(longest_ns, of_trace.LongestNs());
      timed = timed || of_trace.timed();
    }
    if (!timed) return std::move(result_);
    result_.tick_ns = std::max(1.0, std::ceil((longest_ns + 1) / kMostTicks));
    result_.ticks = static_cast<uint32_t>(std::min(longest_ns / result_.tick_ns + 1, kMostTicks));
    pyramid_.emplace(result_.ticks, most_rows_);
    for (size_t i = 0; i < traces_.size(); ++i) {
      if (absl::Status s = ReadTrace(i, times[i]); !s.ok()) return s;
    }
    for (const auto& [label, number] : call_labels_) {
      result_.labels[number] = {std::string(labels_.text(label)), labels_.level(label)};
    }
    TakeTracks();
    return std::move(result_);
  }

 private:
  struct OpenCall {
    uint64_t call;
    uint32_t label;
    int64_t start_ns;
  };
  struct Thread {
    size_t track = 0;
    std::vector<OpenCall> open;
  };
  // In the order of pages: steps first, then by process, rank, thread and stream.
  using TrackKey = std::tuple<size_t, int, int64_t, uint32_t, uint64_t>;  // trace, kind, rank, process, number
  struct NewTrack {
    TrackKey key;
    Timeline::Track track;
    uint64_t calls = 0;
  };
  enum Kind : uint8_t { kSteps, kThread, kStream };

  size_t TrackOf(Kind kind, uint32_t process, uint64_t number, const std::string& name) {
    static constexpr const char* kKinds[] = {"steps", "thread", "stream"};
    const Trace& trace = *traces_[trace_].trace;
    const int64_t rank = trace.processes()[process].known.ranked.rank.value_or(-1);
    const TrackKey key(trace_, kind == kSteps ? 0 : 1, rank, process, (uint64_t{kind} << 60) + number);
    const auto [at, fresh] = track_numbers_.try_emplace(key, tracks_.size());
    if (fresh) tracks_.push_back({key, {name, kKinds[kind], trace_, {}}});
    return at->second;
  }

  uint32_t PageLabel(const std::string& text, int level) {
    const auto [at, fresh] = label_numbers_.try_emplace({text, level}, static_cast<uint32_t>(result_.labels.size()));
    if (fresh) result_.labels.emplace_back(text, level);
    return at->second;
  }

  absl::Status ReadTrace(size_t number, const TraceTimes& times) {
    trace_ = number;
    times_ = &times;
    Trace* const trace = traces_[number].trace;
    labels_.Begin(*trace);
    StepTimes steps(trace);
    WorkNames names(*trace);
    std::map<std::pair<uint32_t, uint32_t>, Thread> threads;
    std::map<uint32_t, CallRecord> of_process;  // the last record
    const LaterNotesShown later(trace, HasDeviceTimes(*trace));
    const absl::Status read = trace->Read([&](const CallRecord& record) {
      if (record.kind == CallRecord::kLater) {
        AddWork(record, &names);
        return absl::OkStatus();
      }
      Thread& thread = threads[{record.process, record.thread}];
      of_process[record.process] = record;
      if (record.kind == CallRecord::kEnter) {
        steps.Add(record);
        if (record.time_ns == 0) {
          ++result_.untimed;
          return absl::OkStatus();
        }
        if (thread.open.empty() && thread.track == 0) thread.track = TrackOfThread(record);
        thread.open.push_back({record.call, LabelOf(record), times.NsOf(record)});
        return absl::OkStatus();
      }
      // Ends of calls inside may be lost.
      while (!thread.open.empty() && thread.open.back().call > record.call) Close(&thread, record);
      if (!thread.open.empty() && thread.open.back().call == record.call) Close(&thread, record);
      return absl::OkStatus();
    });
    if (!read.ok()) return read;
    for (auto& [key, thread] : threads) {
      while (!thread.open.empty()) Close(&thread, of_process[key.first]);
    }
    steps.Finish();
    for (const auto& [process, record] : of_process) AddSteps(steps, record);
    return absl::OkStatus();
  }

  // From 1, as Thread::track is 0 at first.
  size_t TrackOfThread(const CallRecord& record) {
    const ProcessInfo& process = traces_[trace_].trace->processes()[record.process];
    const ThreadInfo* const info = FindThread(process, record.thread);
    const std::string name = info == nullptr || info->name.empty() ? "" : absl::StrCat(" (", info->name, ")");
    return TrackOf(kThread, record.process, record.thread,
                   absl::StrCat(ProcessName(process), " thread ", record.thread, name)) +
           1;
  }

  uint32_t LabelOf(const CallRecord& record) {
    if (record.config == kLostId) return PageLabel("(lost)", -1);
    const std::optional<uint32_t> label = labels_.Of(record);
    if (!label.has_value()) return PageLabel("(unknown)", -1);
    const auto [at, fresh] = call_labels_.try_emplace(*label, static_cast<uint32_t>(result_.labels.size()));
    if (fresh) result_.labels.emplace_back();  // known after the last trace
    return at->second;
  }

  void Close(Thread* thread, const CallRecord& end) {
    const OpenCall call = thread->open.back();
    thread->open.pop_back();
    if (thread->open.size() > kDeepest) {
      ++result_.too_deep;
      return;
    }
    AddRow(thread->track - 1, end, call.start_ns, times_->NsOf(end),
           {.depth = static_cast<uint32_t>(thread->open.size()),
            .label = call.label,
            .call = static_cast<uint32_t>(std::min<uint64_t>(call.call, UINT32_MAX))});
  }

  // `of`: a record of the same process.
  void AddRow(size_t track, const CallRecord& of, int64_t start_ns, int64_t end_ns, Pyramid::Row row) {
    const uint32_t start = times_->Ticks(of, start_ns, result_.tick_ns);
    const uint32_t end = times_->Ticks(of, end_ns, result_.tick_ns);
    row.start = start;
    row.duration = std::max<uint32_t>(1, end - std::min(start, end));
    ++tracks_[track].calls;
    pyramid_->Add(track, row);
  }

  void AddWork(const CallRecord& record, WorkNames* names) {
    if (record.device_work.empty()) return;
    work_.clear();
    ReadDeviceWork(record.device_work, &work_);
    const int64_t shift_ns = times_->ShiftOf(record);
    for (const DeviceWork& work : work_) {
      const std::string process = ProcessName(traces_[trace_].trace->processes()[record.process]);
      const size_t track =
          TrackOf(kStream, record.process, (uint64_t{work.device} << 48) + (work.stream & 0xffffffffffff),
                  absl::StrCat(process, " cuda:", work.device, " stream ", work.stream));
      AddRow(track, record, work.start_ns + shift_ns, work.start_ns + shift_ns + work.duration_ns,
             {.label = PageLabel(names->Of(record.process, work), -1),
              .call = static_cast<uint32_t>(std::min<uint64_t>(record.call, UINT32_MAX))});
    }
  }

  void AddSteps(const StepTimes& steps, const CallRecord& record) {
    const int64_t shift_ns = times_->ShiftOf(record);
    for (const auto& [number, step] : steps.Of(record.process)) {
      if (!step.end_ns.has_value()) continue;
      const std::string process = ProcessName(traces_[trace_].trace->processes()[record.process]);
      const size_t track = TrackOf(kSteps, record.process, 0, absl::StrCat(process, " steps"));
      AddRow(track, record, step.begin_ns + shift_ns, *step.end_ns + shift_ns, {.label = PageLabel(step.name, -1)});
    }
  }

  void TakeTracks() {
    std::vector<size_t> order(tracks_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (order.size() > kMostTracks) {
      std::stable_sort(order.begin(), order.end(),
                       [this](size_t a, size_t b) { return tracks_[a].calls > tracks_[b].calls; });
      result_.tracks_left_out = order.size() - kMostTracks;
      order.resize(kMostTracks);
    }
    std::sort(order.begin(), order.end(), [this](size_t a, size_t b) { return tracks_[a].key < tracks_[b].key; });
    for (const size_t i : order) {
      Timeline::Track track = std::move(tracks_[i].track);
      track.levels = pyramid_->Take(i);
      if (!track.levels.empty()) result_.tracks.push_back(std::move(track));
    }
  }

  const std::vector<StatsTrace>& traces_;
  const size_t most_rows_;
  CallLabels labels_;
  Timeline result_;
  std::optional<Pyramid> pyramid_;
  std::vector<NewTrack> tracks_;
  std::map<TrackKey, size_t> track_numbers_;
  std::map<std::pair<std::string, int>, uint32_t> label_numbers_;
  absl::flat_hash_map<uint32_t, uint32_t> call_labels_;  // of labels_, into the result's
  std::vector<DeviceWork> work_;
  size_t trace_ = 0;
  const TraceTimes* times_ = nullptr;
};

}  // namespace

absl::StatusOr<Timeline> ReadTimeline(const std::vector<StatsTrace>& traces, size_t most_rows) {
  return TimelineReader(traces, most_rows).Read();
}

size_t WriteTimeline(const Timeline& timeline, size_t traces, ReportPage* page) {
  if (timeline.ticks == 0) return 0;
  std::vector<uint32_t> start;
  std::vector<double> duration, depth, label, count, busy, call;
  double merged_calls = 0;
  const auto add = [&](const std::vector<Pyramid::Row>& rows) {
    const size_t from = start.size();
    for (const Pyramid::Row& row : rows) {
      start.push_back(row.start);
      duration.push_back(row.duration);
      depth.push_back(row.depth);
      const auto& [text, level] = timeline.labels[row.label];
      label.push_back(page->Label(text, level));
      count.push_back(row.count);
      busy.push_back(row.busy);
      call.push_back(row.call);
    }
    return ordered_json::array({from, rows.size()});
  };
  ordered_json tracks = ordered_json::array();
  for (const Timeline::Track& track : timeline.tracks) {
    ordered_json levels = ordered_json::array();
    uint32_t deepest = 0;
    for (const Pyramid::Level& level : track.levels) {
      for (const auto* rows : {&level.calls, &level.merged}) {
        for (const Pyramid::Row& row : *rows) deepest = std::max(deepest, row.depth);
      }
      ordered_json calls = add(level.calls);
      levels.push_back({{"bin_ticks", level.bin_ticks}, {"calls", std::move(calls)}, {"merged", add(level.merged)}});
    }
    for (const Pyramid::Row& row : track.levels[0].merged) merged_calls += row.count;
    ordered_json json = {{"name", PageText(track.name)}, {"kind", track.kind}, {"depth", deepest}};
    if (traces > 1) json["trace"] = track.trace;
    json["levels"] = std::move(levels);
    tracks.push_back(std::move(json));
  }
  PageBlock block;
  block.AddDeltas("start", start);
  block.AddNumbers("duration", duration);
  block.AddNumbers("depth", depth);
  block.AddNumbers("label", label);
  block.AddNumbers("count", count);
  block.AddNumbers("busy", busy);
  block.AddNumbers("call", call);
  page->head()["timeline"] = {{"block", "timeline"},
                              {"tick_ns", timeline.tick_ns},
                              {"ticks", timeline.ticks},
                              {"tracks", std::move(tracks)},
                              {"merged_calls", merged_calls}};
  return page->SetBlock("timeline", block);
}

}  // namespace torchtrace
