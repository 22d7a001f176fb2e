#include "serialize/log/log_survey.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/ahead.h"
#include "serialize/log/call_counts.h"
#include "serialize/log/call_reader.h"
#include "serialize/log/record_batch.h"
#include "serialize/log/thread_calls.h"
#include "serialize/log/thread_reader.h"

namespace torchtrace {

// What one frame says, whatever is in the others.
struct FrameSurvey {
  struct Segment {
    LogSegment segment;
    uint64_t thread = 0;
    uint64_t os_id = 0;
    std::string name;
  };
  struct Definition {
    uint64_t hash;  // ConfigTable::HashOf(identity)
    uint32_t identity_bytes;
    uint32_t facets_bytes;
  };

  void Keep(std::string_view identity, std::string_view facets) {
    definitions.push_back(
        {ConfigTable::HashOf(identity), static_cast<uint32_t>(identity.size()), static_cast<uint32_t>(facets.size())});
    texts.append(identity).append(facets);
  }

  FramePayload payload;
  uint64_t end = 0;  // of the usable records
  uint64_t calls = 0;
  bool has_lost_records = false;
  std::vector<Segment> segments;
  std::vector<uint64_t> definition_calls;
  // None if the records are visited. The identities and facets are in `texts`, one after the other.
  std::vector<Definition> definitions;
  std::string texts;
  std::vector<std::pair<std::string, uint64_t>> dropped;
  std::vector<std::pair<std::string, std::string>> schemas;
  uint64_t definition_bytes = 0;
  uint64_t other_bytes = 0;  // neither definitions nor events
};

namespace {

// The smallest enter record.
constexpr uint64_t kMinEnterBytes = 2;
// More sentences would not be read.
constexpr size_t kMaxSentences = 100;
constexpr size_t kFramesOfAThread = 4;
// Definitions on their way into the processor's cache.
constexpr size_t kExpected = 8;

// Surveys one frame, in one go or in parts.
class FrameSurveyor {
 public:
  FrameSurveyor(const LogReader& log, uint32_t index) : FrameSurveyor(log, index, log.Verify(log.frames()[index])) {}

  // Calls `visit(kind, reader)` for each usable record. If it returns false, the next call goes on after that record.
  // True at the frame's end.
  template <typename Visit>
  bool Go(const Visit& visit) {
    if (frame_.payload.trust == FramePayload::kUseless) return true;
    auto kind = reader_.Next();
    // A frame begins with a thread's record.
    if (segment_ == nullptr && kind != CallReader::kThread) kind = CallReader::kBroken;
    for (; Count(kind); kind = reader_.Next()) {
      if (!visit(kind, reader_)) return false;
    }
    EndSegment();
    for (const FrameSurvey::Segment& each : frame_.segments) frame_.calls += each.segment.calls;
    frame_.end = reader_.offset();
    frame_.has_lost_records =
        frame_.payload.trust == FramePayload::kUnverified && log_.HasLostRecords(log_.frames()[index_]);
    return true;
  }

  FrameSurvey& frame() { return frame_; }

 private:
  FrameSurveyor(const LogReader& log, uint32_t index, FramePayload payload)
      : log_(log), index_(index), reader_(&log.file(), log.frames()[index].payload_offset(), 0, payload.bytes) {
    frame_.payload = std::move(payload);
  }

  // False: the record is not usable.
  [[gnu::always_inline]] bool Count(CallReader::Kind kind) {
    switch (kind) {
      case CallReader::kEnter:
        if (reader_.definition() >= frame_.definition_calls.size()) return false;
        ++frame_.definition_calls[reader_.definition()];
        ++segment_->calls;
        ++segment_->left_open;
        return true;
      case CallReader::kLeave:
      case CallReader::kRaise:
        if (segment_->left_open > 0) {
          --segment_->left_open;
        } else {
          ++segment_->ends_of_earlier;
        }
        return true;
      default:
        return CountOther(kind);
    }
  }
  bool CountOther(CallReader::Kind kind) {
    if (kind > CallReader::kLast) return false;
    if (kind == CallReader::kThread && reader_.thread().number >= UINT32_MAX) return false;
    uint64_t& bytes = kind == CallReader::kDefine ? frame_.definition_bytes : frame_.other_bytes;
    bytes += reader_.next_offset() - reader_.offset();
    if (kind == CallReader::kThread) {
      EndSegment();
      BeginSegment();
    }
    if (kind == CallReader::kDefine) frame_.definition_calls.push_back(0);
    if (kind == CallReader::kDropped) frame_.dropped.emplace_back(reader_.text(), reader_.count());
    if (kind == CallReader::kSchema) frame_.schemas.emplace_back(reader_.schema_name(), reader_.schema());
    return true;
  }

  void BeginSegment() {
    const CallReader::ThreadRecord& thread = reader_.thread();
    frame_.segments.push_back({{}, thread.number, thread.os_id, std::string(thread.name)});
    segment_ = &frame_.segments.back().segment;
    segment_->frame = index_;
    segment_->begin = static_cast<uint32_t>(reader_.offset());
    segment_->time = thread.time;
    segment_->calls_before = thread.calls_before;
    segment_->open_calls = thread.open_calls;
  }
  void EndSegment() {
    if (segment_ != nullptr) segment_->end = static_cast<uint32_t>(reader_.offset());
  }

  const LogReader& log_;
  const uint32_t index_;
  FrameSurvey frame_;
  LogSegment* segment_ = nullptr;  // the last of frame_
  CallReader reader_;
};

FrameSurvey SurveyFrame(const LogReader& log, uint32_t index) {
  FrameSurveyor surveyor(log, index);
  surveyor.Go([&surveyor](CallReader::Kind kind, const CallReader& reader) {
    if (kind == CallReader::kDefine) surveyor.frame().Keep(reader.identity(), reader.facets());
    return true;
  });
  return std::move(surveyor.frame());
}

// Surveys frames one after the other, and hands out their records, with their times by `clock`.
class FrameDecoder {
 public:
  struct Part {
    RecordBatch records;
    std::optional<FrameSurvey> frame;  // with its last records
  };

  FrameDecoder(const LogReader& log, const LogClock& clock, const std::vector<uint32_t>& frames)
      : log_(log), clock_(clock), frames_(frames) {}

  // Empty after the last frame.
  Part Next() {
    Part part;
    if (!now_.has_value()) {
      if (next_ == frames_.size()) return part;
      now_.emplace(log_, frames_[next_++]);
    }
    const auto take = [this, &part](CallReader::Kind kind, const CallReader& reader) __attribute__((always_inline)) {
      part.records.Add(kind, reader, clock_.Nanoseconds(reader.time()));
      return !part.records.full();
    };
    if (!now_->Go(take)) return part;
    part.frame = std::move(now_->frame());
    now_.reset();
    return part;
  }

 private:
  const LogReader& log_;
  const LogClock& clock_;
  const std::vector<uint32_t>& frames_;
  size_t next_ = 0;
  std::optional<FrameSurveyor> now_;
};

bool IsOfCalls(const LogReader& log, uint32_t frame) { return log.frames()[frame].type() == FrameType::kCalls; }

void AddFramesOfCalls(const LogReader& log, const LogProcess& process, std::vector<uint32_t>* frames) {
  std::copy_if(process.frames.begin(), process.frames.end(), std::back_inserter(*frames),
               [&](uint32_t i) { return IsOfCalls(log, i); });
}

// Few frames are not worth a thread.
size_t ThreadsFor(const std::vector<uint32_t>& frames, size_t threads) {
  return std::min(threads, frames.size() / kFramesOfAThread);
}

class Surveyor {
 public:
  Surveyor(const LogReader& log, size_t process, const LogEnd& end, ConfigTable* configs, std::vector<uint64_t>* counts,
           const SurveyVisit* visit)
      : log_(log),
        process_(log.processes()[process]),
        is_first_(process == 0),
        end_(end),
        configs_(configs),
        counts_(counts),
        visit_(visit),
        definitions_(&log, configs, visit == nullptr ? nullptr : visit->stacks) {}

  LogSurvey Run(const std::function<void(uint64_t bytes)>& progress, FramesAhead* ahead) {
    if (log_.superblock_damaged() && is_first_) {
      Say("the superblock at byte 0 is damaged; the frames after it were read");
    }
    const auto survey = [&](const auto& next) {
      for (const uint32_t i : process_.frames) {
        if (IsOfCalls(log_, i)) Add(i, next(i));
        if (log_.frames()[i].type() == FrameType::kCounts) AddCounts(log_.frames()[i]);
        if (progress != nullptr) progress(log_.frames()[i].header.capacity_bytes);
      }
    };
    if (visit_ != nullptr) {
      definitions_.StayOpen();
      std::vector<uint32_t> frames;
      AddFramesOfCalls(log_, process_, &frames);
      FrameDecoder decoder(log_, *visit_->clock, frames);
      // Visiting takes longer than decoding, so that one thread is enough. The number of parts isn't known.
      const size_t threads = visit_->helped ? ThreadsFor(frames, 1) : 0;
      Ahead<FrameDecoder::Part> parts(SIZE_MAX, threads, [&](size_t) { return decoder.Next(); });
      survey([&](uint32_t) { return VisitFrame(&parts); });
    } else if (ahead != nullptr) {
      survey([&](uint32_t) { return ahead->Next(); });
    } else {
      survey([&](uint32_t i) { return SurveyFrame(log_, i); });
    }
    TellOfTheFile();
    if (log_.many_processes()) TellOfMissingFrames();
    for (auto& [number, thread] : visited_) {
      std::sort(thread.waiting.begin(), thread.waiting.end(), IsBefore);
      ReadSegments(thread.waiting, &thread.calls);
    }
    for (LogThread& thread : survey_.threads) Arrange(&thread);
    std::sort(survey_.threads.begin(), survey_.threads.end(),
              [](const LogThread& a, const LogThread& b) { return a.number < b.number; });
    AccountForLosses();
    for (const auto& [reason, count] : end_.dropped) {
      survey_.dropped[reason] = std::max(survey_.dropped[reason], count);
    }
    return std::move(survey_);
  }

 private:
  void Say(std::string sentence) {
    if (survey_.damage.sentences.size() < kMaxSentences) {
      survey_.damage.sentences.push_back(std::move(sentence));
    } else {
      ++untold_;
    }
  }

  void Lose(std::optional<uint64_t> calls, uint64_t bytes) {
    survey_.damage.lost_bytes += bytes;
    if (calls) {
      lost_by_frames_ += *calls;
    } else {
      uncertain_ = true;
    }
  }

  // Reports what is wrong with the file as a whole, once, for its first process.
  void TellOfTheFile() {
    if (!is_first_) return;
    if (!log_.closing_note().empty()) Say(log_.closing_note());
    for (const LostRegion& region : log_.lost_regions()) {
      Say(region.bytes == 0
              ? absl::StrCat("frames are missing at byte ", region.offset)
              : absl::StrCat("no frame can be read in bytes ", region.offset, " to ", region.offset + region.bytes));
      if (log_.many_processes()) {
        survey_.damage.lost_bytes += region.bytes;
      } else {
        Lose(region.calls, region.bytes);
      }
    }
    if (log_.cut()) {
      Say(absl::StrCat("the file was cut at byte ", log_.file().bytes()));
      uncertain_ = true;
    }
  }

  void TellOfMissingFrames() {
    if (process_.totals) {
      const uint64_t missing =
          process_.totals->frames - std::min<uint64_t>(process_.totals->frames, process_.frames.size());
      if (missing > 0) Say(absl::StrCat(missing, " of its ", process_.totals->frames, " frames are missing"));
    } else if (log_.may_lack_frames()) {
      if (!is_first_) {
        Say("the log is damaged: frames of this process may be missing");
      } else if (log_.lost_regions().empty() && !log_.cut()) {
        Say(absl::StrCat("the log has no closing frame: it was cut between two frames, at byte ", log_.file().bytes()));
      }
      uncertain_ = true;
    }
  }

  void Add(uint32_t index, const FrameSurvey& read) {
    const LogFrame& frame = log_.frames()[index];
    const FramePayload& payload = read.payload;
    if (payload.trust == FramePayload::kUseless) {
      Say(payload.calls ? absl::StrCat(payload.note, ": ", *payload.calls, " calls lost") : payload.note);
      return Lose(payload.calls, payload.bytes);
    }
    AddRecords(read);
    const uint64_t end = read.end;
    const uint64_t calls = read.calls;
    if (!payload.note.empty()) {
      Say(payload.calls && *payload.calls != calls
              ? absl::StrCat(payload.note, ": ", calls, " of its ", *payload.calls, " calls were read")
              : payload.note);
    }
    if (payload.trust == FramePayload::kVerified) {
      if (end == payload.bytes) return;
      Say(absl::StrCat("the frame at byte ", frame.offset, " holds no record at byte ", frame.payload_offset() + end));
      const uint64_t said = payload.calls.value_or(calls);
      return Lose(said - std::min(said, calls), payload.bytes - end);
    }
    const uint64_t committed = std::min<uint64_t>(frame.header.committed_bytes, frame.payload_capacity());
    if (payload.calls) return Lose(*payload.calls - std::min(*payload.calls, calls), committed - end);
    if (end < payload.bytes && payload.note.empty()) {
      Say(absl::StrCat("the open frame at byte ", frame.offset, " holds no record at byte ",
                       frame.payload_offset() + end));
    }
    if (end < committed) {
      Lose(std::nullopt, committed - end);
    } else if (read.has_lost_records) {
      Say(absl::StrCat("the open frame at byte ", frame.offset, " has records after its commit word, at byte ",
                       frame.payload_offset() + end));
      uncertain_ = true;
    }
  }

  void AddCounts(const LogFrame& frame) {
    const FramePayload payload = log_.Verify(frame);
    if (payload.trust == FramePayload::kUseless) {
      Say(payload.calls ? absl::StrCat(payload.note, ": the counts of ", *payload.calls, " calls lost") : payload.note);
      return Lose(payload.calls, payload.bytes);
    }
    if (!payload.note.empty()) Say(payload.note);
    const std::string bytes = log_.file().ReadAt(frame.payload_offset(), payload.bytes);
    const uint64_t read =
        VisitCounts(bytes, [this](std::string_view identity, std::string_view facets, uint64_t calls) {
          const VariantId variant = configs_->Intern(identity, facets);
          counts_->resize(configs_->variant_count());
          (*counts_)[variant] += calls;
          survey_.calls += calls;
          counted_ += calls;
          survey_.counted.emplace_back(variant, calls);
        });
    const uint64_t committed = std::min<uint64_t>(frame.header.committed_bytes, frame.payload_capacity());
    if (read == committed) return;
    Say(absl::StrCat("the frame at byte ", frame.offset, " holds no count at byte ", frame.payload_offset() + read));
    Lose(std::nullopt, committed - read);
  }

  void AddRecords(const FrameSurvey& read) {
    for (const FrameSurvey::Segment& of_thread : read.segments) {
      const auto [found, is_new] = thread_index_.try_emplace(of_thread.thread, survey_.threads.size());
      if (is_new) survey_.threads.emplace_back().number = of_thread.thread;
      LogThread& thread = survey_.threads[found->second];
      thread.os_id = of_thread.os_id;
      thread.name = of_thread.name;
      thread.calls += of_thread.segment.calls;
      thread.segments.push_back(of_thread.segment);
    }
    const char* text = read.texts.data();
    const auto take = [&text](uint32_t bytes) { return std::string_view(std::exchange(text, text + bytes), bytes); };
    for (size_t i = 0; i < read.definition_calls.size(); ++i) {
      VariantId variant;
      if (visit_ == nullptr) {
        if (i + kExpected < read.definitions.size()) configs_->Expect(read.definitions[i + kExpected].hash);
        const FrameSurvey::Definition& definition = read.definitions[i];
        const std::string_view identity = take(definition.identity_bytes);
        const std::string_view facets = take(definition.facets_bytes);
        variant = configs_->Intern(identity, definition.hash, facets);
      } else {
        variant = frame_definitions_.variants()[i].id;
      }
      if (variant >= counts_->size()) counts_->resize(configs_->variant_count());
      (*counts_)[variant] += read.definition_calls[i];
    }
    counts_->resize(configs_->variant_count());
    for (const auto& [reason, count] : read.dropped) survey_.dropped[reason] += count;
    for (const auto& [name, schema] : read.schemas) survey_.schemas.insert_or_assign(name, schema);
    survey_.calls += read.calls;
    survey_.definition_bytes += read.definition_bytes;
    other_bytes_ += read.other_bytes;
    record_bytes_ += read.end;
  }

  // A thread whose calls are visited, with the segments that can't be visited yet: others of the thread come first.
  struct VisitedThread {
    explicit VisitedThread(ThreadCalls of_thread) : calls(std::move(of_thread)) {}

    ThreadCalls calls;
    std::vector<LogSegment> waiting;
  };

  FrameSurvey VisitFrame(Ahead<FrameDecoder::Part>* parts) {
    frame_definitions_ = {};
    ThreadCalls* calls = nullptr;  // null: the segment must wait
    std::vector<bool> visited;     // by segment
    const auto use = [&](LogRecord::Kind kind, const LogRecord& record, int64_t at_ns) __attribute__((always_inline)) {
      if (kind == LogRecord::kThread) {
        calls = BeginVisit(record);
        visited.push_back(calls != nullptr);
        return;
      }
      if (kind > LogRecord::kRaise) frame_definitions_.Add(kind, record, configs_, visit_->stacks);
      if (calls == nullptr || !calls->Take(kind, record, at_ns, frame_definitions_)) return;
      Show(calls);
      calls->Apply();
    };
    std::optional<FrameSurvey> frame;
    while (!frame.has_value()) {
      FrameDecoder::Part part = parts->Next();
      part.records.ForEach(use);
      frame = std::move(part.frame);
    }
    for (size_t i = 0; i < visited.size(); ++i) {
      if (visited[i]) continue;
      visited_.at(frame->segments[i].thread).waiting.push_back(frame->segments[i].segment);
      definitions_.Expect(frame->segments[i].segment);
    }
    for (size_t i = 0; i < visited.size(); ++i) {
      if (visited[i]) VisitWaiting(&visited_.at(frame->segments[i].thread));
    }
    return *std::move(frame);
  }

  // Null: the segment must wait.
  ThreadCalls* BeginVisit(const LogRecord& record) {
    const LogRecord::ThreadRecord& thread = record.thread();
    const auto [at, is_new] = visited_.try_emplace(
        thread.number,
        ThreadCalls(visit_->process, static_cast<uint32_t>(thread.number), visit_->clock, visit_->tags, visit_->shown));
    ThreadCalls& calls = at->second.calls;
    LogSegment segment;
    segment.time = thread.time;
    segment.calls_before = thread.calls_before;
    segment.open_calls = thread.open_calls;
    // Only the first thread of a forked process begins inside of calls.
    const bool is_first = segment.calls_before == 0 && visited_.size() == 1 && is_new;
    if (!is_first && !calls.Continues(segment)) return nullptr;
    calls.Begin(segment);
    return &calls;
  }

  void VisitWaiting(VisitedThread* thread) {
    std::vector<LogSegment>& waiting = thread->waiting;
    for (;;) {
      const auto next = std::find_if(waiting.begin(), waiting.end(),
                                     [&](const LogSegment& other) { return thread->calls.Continues(other); });
      if (next == waiting.end()) return;
      ReadSegments({*next}, &thread->calls);
      waiting.erase(next);
    }
  }

  void ReadSegments(const std::vector<LogSegment>& segments, ThreadCalls* calls) {
    for (ThreadReader reader(&segments, &definitions_, calls); reader.state() != ThreadReader::kDone;) {
      if (reader.state() == ThreadReader::kRecord) Show(calls);
      reader.Advance();
    }
  }

  void Show(ThreadCalls* calls) {
    CallRecord& record = calls->record();
    if (record.kind == CallRecord::kEnter) record.call = (*visit_->calls)++;
    (*visit_->visitor)(record);
  }

  // Sorts the segments into program order. Counts the calls that stayed open and those that are missing in between.
  void Arrange(LogThread* thread) {
    std::sort(thread->segments.begin(), thread->segments.end(), IsBefore);
    // Open calls, outermost first, as runs of calls with known entries and of
    // calls without.
    struct Run {
      uint64_t calls;
      bool known;
    };
    std::vector<Run> runs;
    uint64_t open = 0;
    uint64_t known_left = 0;
    const auto pop_to = [&](uint64_t size, uint64_t* known) {
      while (open > size) {
        Run& run = runs.back();
        const uint64_t count = std::min(run.calls, open - size);
        if (run.known) *known += count;
        run.calls -= count;
        open -= count;
        if (run.calls == 0) runs.pop_back();
      }
    };
    const auto push = [&](uint64_t calls, bool known) {
      if (calls == 0) return;
      runs.push_back({calls, known});
      open += calls;
    };
    const LogSegment* before = nullptr;
    for (const LogSegment& segment : thread->segments) {
      const uint64_t lost = CallsBetween(before, segment);
      lost_by_threads_ += lost;
      uint64_t ends_lost = 0;
      pop_to(SurvivingCalls(open, lost, segment), &ends_lost);
      push(segment.open_calls - open, false);
      pop_to(open - std::min<uint64_t>(open, segment.ends_of_earlier), &known_left);
      push(segment.left_open, true);
      known_left += segment.calls - segment.left_open;
      before = &segment;
    }
    survey_.open_calls += thread->calls - known_left;
  }

  void AccountForLosses() {
    Damage& damage = survey_.damage;
    survey_.event_bytes = record_bytes_ - other_bytes_ - survey_.definition_bytes;
    if (untold_ > 0) damage.sentences.push_back(absl::StrCat("and ", untold_, " more places of damage"));
    const bool damaged = !damage.sentences.empty();
    damage.lost_calls = lost_by_frames_;
    damage.lost_calls_exact = !uncertain_;
    if (log_.many_processes() && process_.totals) {
      // The closing frame counts what the log should hold, `end` what was recorded.
      damage.lost_calls = process_.totals->calls - std::min(process_.totals->calls, survey_.calls);
      damage.lost_calls_exact = true;
      if (damage.lost_calls > 0 && !damaged) Say(absl::StrCat(damage.lost_calls, " calls are missing"));
    } else if (end_.has_threads && !log_.many_processes()) {
      // The end metadata counts every thread's calls.
      uint64_t lost = end_.counted - std::min(end_.counted, counted_);
      for (const auto& [number, calls] : end_.thread_calls) {
        lost += calls - std::min(calls, CallsOf(number));
      }
      if (lost > 0 && !damaged) Say(absl::StrCat("frames are missing: ", lost, " calls lost"));
      // Each thread may have counted one more call meanwhile.
      if (counted_ > end_.counted + end_.thread_calls.size()) Say("its counts are greater than at its end");
      damage.lost_calls = std::max(damage.lost_calls, lost);
      damage.lost_calls_exact = true;
    } else if (uncertain_ && (log_.cut() || lost_by_threads_ <= damage.lost_bytes / kMinEnterBytes)) {
      // Thread records show what is missing before them, not after the last one.
      damage.lost_calls = std::max(damage.lost_calls, lost_by_threads_);
    }
  }

  uint64_t CallsOf(uint64_t number) const {
    const auto found = std::lower_bound(survey_.threads.begin(), survey_.threads.end(), number,
                                        [](const LogThread& thread, uint64_t n) { return thread.number < n; });
    return found == survey_.threads.end() || found->number != number ? 0 : found->calls;
  }

  const LogReader& log_;
  const LogProcess& process_;
  const bool is_first_;  // the log's first process
  const LogEnd& end_;
  ConfigTable* const configs_;
  std::vector<uint64_t>* const counts_;
  const SurveyVisit* const visit_;             // or null
  FrameDefinitions frame_definitions_;         // of the frame that is visited
  LogDefinitions definitions_;                 // of segments that wait
  std::map<uint64_t, VisitedThread> visited_;  // by number
  LogSurvey survey_;
  absl::flat_hash_map<uint64_t, size_t> thread_index_;
  uint64_t record_bytes_ = 0;
  uint64_t other_bytes_ = 0;
  uint64_t counted_ = 0;          // calls in frames of counts
  uint64_t lost_by_frames_ = 0;   // by the headers of damaged frames
  uint64_t lost_by_threads_ = 0;  // by thread records
  uint64_t untold_ = 0;           // sentences beyond kMaxSentences
  bool uncertain_ = false;        // lost calls that no header counts
};

}  // namespace

bool IsBefore(const LogSegment& a, const LogSegment& b) {
  const auto order = [](const LogSegment& s) {
    return std::tuple(s.calls_before, UINT64_MAX - s.open_calls, s.time, s.frame, s.begin);
  };
  return order(a) < order(b);
}

uint64_t SurvivingCalls(uint64_t open, uint64_t lost, const LogSegment& next) {
  // Each lost call may have replaced one that ended.
  return std::min(open, next.open_calls - std::min(next.open_calls, lost));
}

uint64_t CallsBetween(const LogSegment* before, const LogSegment& next) {
  const uint64_t expected = before == nullptr ? 0 : before->calls_before + before->calls;
  return next.calls_before - std::min(next.calls_before, expected);
}

FramesAhead::FramesAhead(const LogReader& log, const std::vector<size_t>& processes, size_t threads) {
  for (const size_t process : processes) AddFramesOfCalls(log, log.processes()[process], &frames_);
  surveys_ = std::make_unique<Ahead<FrameSurvey>>(frames_.size(), ThreadsFor(frames_, threads),
                                                  [this, &log](size_t i) { return SurveyFrame(log, frames_[i]); });
}

FramesAhead::~FramesAhead() = default;

FrameSurvey FramesAhead::Next() { return surveys_->Next(); }

LogSurvey SurveyLog(const LogReader& log, size_t process, const LogEnd& end, ConfigTable* configs,
                    std::vector<uint64_t>* counts, const std::function<void(uint64_t bytes)>& progress,
                    FramesAhead* frames, const SurveyVisit* visit) {
  return Surveyor(log, process, end, configs, counts, visit).Run(progress, frames);
}

}  // namespace torchtrace
