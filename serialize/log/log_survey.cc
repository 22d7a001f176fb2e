#include "serialize/log/log_survey.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "serialize/log/call_reader.h"
#include "serialize/log/thread_calls.h"
#include "serialize/log/thread_reader.h"

namespace torchtrace {
namespace {

// The smallest enter record.
constexpr uint64_t kMinEnterBytes = 2;
// More sentences would not be read.
constexpr size_t kMaxSentences = 100;

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

  LogSurvey Run(const std::function<void(uint64_t bytes)>& progress) {
    if (log_.superblock_damaged() && is_first_) {
      Say("the superblock at byte 0 is damaged; the frames after it were read");
    }
    for (const uint32_t i : process_.frames) {
      const LogFrame& frame = log_.frames()[i];
      if (frame.type() == FrameType::kCalls) ReadFrame(i);
      if (progress != nullptr) progress(frame.header.capacity_bytes);
    }
    TellOfTheFile();
    if (log_.many_processes()) TellOfMissingFrames();
    for (VisitedThread& thread : visited_) {
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

  void ReadFrame(uint32_t index) {
    const LogFrame& frame = log_.frames()[index];
    const FramePayload payload = log_.Verify(frame);
    if (payload.trust == FramePayload::kUseless) {
      Say(payload.calls ? absl::StrCat(payload.note, ": ", *payload.calls, " calls lost") : payload.note);
      return Lose(payload.calls, payload.bytes);
    }
    const uint64_t calls_before = survey_.calls;
    const uint64_t end = ReadRecords(index, payload.bytes);
    const uint64_t calls = survey_.calls - calls_before;
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
    } else if (log_.HasLostRecords(frame)) {
      Say(absl::StrCat("the open frame at byte ", frame.offset, " has records after its commit word, at byte ",
                       frame.payload_offset() + end));
      uncertain_ = true;
    }
  }

  // Returns the end of the usable records.
  uint64_t ReadRecords(uint32_t index, uint64_t bytes) {
    CallReader reader(&log_.file(), log_.frames()[index].payload_offset(), 0, bytes);
    auto kind = reader.Next();
    if (kind != CallReader::kThread) return 0;
    frame_.Clear();
    frame_counts_.clear();
    LogThread* thread = nullptr;
    ThreadCalls* calls = nullptr;  // of the thread; null: the segment isn't visited here
    LogSegment segment;
    const auto end_segment = [&] {
      if (thread == nullptr) return;
      segment.end = static_cast<uint32_t>(reader.offset());
      thread->calls += segment.calls;
      thread->segments.push_back(segment);
      if (visit_ != nullptr) EndVisit(segment, calls != nullptr, &VisitedOf(*thread));
      thread = nullptr;
    };
    for (bool more = true; more; kind = more ? reader.Next() : kind) {
      switch (kind) {
        case CallReader::kEnter:
          if (reader.definition() >= frame_counts_.size()) {
            more = false;
            break;
          }
          ++frame_counts_[reader.definition()];
          ++segment.calls;
          ++segment.left_open;
          break;
        case CallReader::kLeave:
        case CallReader::kRaise:
          if (segment.left_open > 0) {
            --segment.left_open;
          } else {
            ++segment.ends_of_earlier;
          }
          break;
        case CallReader::kDefine:
          frame_.Define(reader, configs_);
          frame_counts_.push_back(0);
          survey_.definition_bytes += reader.next_offset() - reader.offset();
          break;
        case CallReader::kThread:
          end_segment();
          thread = ThreadOf(reader.thread());
          if (thread == nullptr) {
            more = false;
            break;
          }
          segment = LogSegment();
          segment.frame = index;
          segment.begin = static_cast<uint32_t>(reader.offset());
          segment.time = reader.time();
          segment.calls_before = reader.thread().calls_before;
          segment.open_calls = reader.thread().open_calls;
          calls = visit_ == nullptr ? nullptr : BeginVisit(segment, *thread);
          other_bytes_ += reader.next_offset() - reader.offset();
          break;
        case CallReader::kDropped:
          survey_.dropped[std::string(reader.text())] += reader.count();
          other_bytes_ += reader.next_offset() - reader.offset();
          break;
        case CallReader::kSchema:
          survey_.schemas.insert_or_assign(std::string(reader.schema_name()), std::string(reader.schema()));
          other_bytes_ += reader.next_offset() - reader.offset();
          break;
        case CallReader::kCode:
          if (visit_ != nullptr) frame_.DefineCode(reader, visit_->stacks);
          other_bytes_ += reader.next_offset() - reader.offset();
          break;
        case CallReader::kPlace:
          if (visit_ != nullptr) frame_.DefinePlace(reader, visit_->stacks);
          other_bytes_ += reader.next_offset() - reader.offset();
          break;
        case CallReader::kTags:
        case CallReader::kStack:
        case CallReader::kFacts:
        case CallReader::kNotes:
        case CallReader::kResult:
        case CallReader::kUnknown:
          other_bytes_ += reader.next_offset() - reader.offset();
          break;
        default:
          more = false;
      }
      if (calls != nullptr && more && calls->Take(kind, reader, frame_)) {
        Show(calls);
        calls->Apply();
      }
    }
    end_segment();
    counts_->resize(configs_->variant_count());
    for (size_t i = 0; i < frame_counts_.size(); ++i) {
      (*counts_)[frame_.variants()[i].id] += frame_counts_[i];
      survey_.calls += frame_counts_[i];
    }
    record_bytes_ += reader.offset();
    return reader.offset();
  }

  // Null for an impossible thread number.
  LogThread* ThreadOf(const CallReader::ThreadRecord& record) {
    if (record.number >= UINT32_MAX) return nullptr;
    const auto [found, is_new] = thread_index_.try_emplace(record.number, survey_.threads.size());
    if (is_new) survey_.threads.emplace_back().number = record.number;
    LogThread* const thread = &survey_.threads[found->second];
    thread->os_id = record.os_id;
    thread->name = record.name;
    return thread;
  }

  // A thread whose calls are visited, with the segments that can't be visited yet: others of the thread come first.
  struct VisitedThread {
    ThreadCalls calls;
    std::vector<LogSegment> waiting;
  };

  VisitedThread& VisitedOf(const LogThread& thread) { return visited_[thread_index_[thread.number]]; }

  // Null: the segment must wait.
  ThreadCalls* BeginVisit(const LogSegment& segment, const LogThread& thread) {
    if (visited_.size() < survey_.threads.size()) {
      visited_.push_back(
          {ThreadCalls(visit_->process, static_cast<uint32_t>(thread.number), visit_->clock, visit_->tags), {}});
    }
    ThreadCalls& calls = VisitedOf(thread).calls;
    // Only the first thread of a forked process begins inside of calls.
    const bool is_first = segment.calls_before == 0 && visited_.size() == 1 && thread.segments.empty();
    if (!is_first && !calls.Continues(segment)) return nullptr;
    calls.Begin(segment);
    return &calls;
  }

  void EndVisit(const LogSegment& segment, bool visited, VisitedThread* thread) {
    std::vector<LogSegment>& waiting = thread->waiting;
    if (!visited) {
      waiting.push_back(segment);
      definitions_.Expect(segment);
      return;
    }
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
      uint64_t lost = 0;
      for (const auto& [number, calls] : end_.thread_calls) {
        lost += calls - std::min(calls, CallsOf(number));
      }
      if (lost > 0 && !damaged) Say(absl::StrCat("frames are missing: ", lost, " calls lost"));
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
  const SurveyVisit* const visit_;      // or null
  LogDefinitions definitions_;          // of segments that wait
  std::vector<VisitedThread> visited_;  // as survey_.threads
  LogSurvey survey_;
  absl::flat_hash_map<uint64_t, size_t> thread_index_;
  uint64_t record_bytes_ = 0;
  uint64_t other_bytes_ = 0;
  uint64_t lost_by_frames_ = 0;         // by the headers of damaged frames
  uint64_t lost_by_threads_ = 0;        // by thread records
  uint64_t untold_ = 0;                 // sentences beyond kMaxSentences
  bool uncertain_ = false;              // lost calls that no header counts
  FrameDefinitions frame_;              // of the frame being read
  std::vector<uint64_t> frame_counts_;  // the same, by definition
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

LogSurvey SurveyLog(const LogReader& log, size_t process, const LogEnd& end, ConfigTable* configs,
                    std::vector<uint64_t>* counts, const std::function<void(uint64_t bytes)>& progress,
                    const SurveyVisit* visit) {
  return Surveyor(log, process, end, configs, counts, visit).Run(progress);
}

}  // namespace torchtrace
