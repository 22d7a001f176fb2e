// Turning the records of one thread into CallRecords: definitions of the frame, open calls, times.

#ifndef TORCHTRACE_SERIALIZE_LOG_THREAD_CALLS_H_
#define TORCHTRACE_SERIALIZE_LOG_THREAD_CALLS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/base/reused_stack.h"
#include "serialize/log/call_reader.h"
#include "serialize/log/log_metadata.h"
#include "serialize/log/log_survey.h"
#include "serialize/trace/recent_calls.h"
#include "serialize/trace/tables.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// The definitions of one frame. They apply to the whole frame, including other threads that continue in it.
class FrameDefinitions {
 public:
  struct Variant {
    VariantId id;
    ConfigId config;
    uint8_t level;
  };

  // Takes the record if it is a definition.
  void Add(LogRecord::Kind kind, const LogRecord& record, ConfigTable* configs, StackTable* stacks);

  // By definition.
  const std::vector<Variant>& variants() const { return variants_; }
  StackId stack(uint64_t place) const { return place < places_.size() ? places_[place] : kNoStack; }

 private:
  std::vector<Variant> variants_;
  std::vector<uint32_t> codes_;  // of the StackTable, by the code's number in the frame
  std::vector<StackId> places_;  // by the place's number
};

// ThreadCalls takes the records of one thread in program order and makes the CallRecords of its calls' entries and
// ends. It tracks the open calls, so that every end finds its entry; ends without one are left out.
class ThreadCalls {
 public:
  // All must outlive it. `process` is an index into Trace::processes(). `shown`: which records there are
  // beside entries and ends.
  ThreadCalls(uint32_t process, uint32_t thread, const LogClock* clock, TagTable* tags, RecordsShown shown);

  // Whether the segment certainly follows the records taken so far.
  bool Continues(const LogSegment& segment) const {
    return segment.calls_before == calls_ && segment.open_calls == depth_;
  }
  // Call it before the records of a segment.
  void Begin(const LogSegment& segment);

  // True if the record is a call's entry or end, later notes, or memory, which record() then is, and Apply must follow.
  // `time_ns`: of the record, by the clock. Definitions are ignored; an entry must have one.
  [[gnu::always_inline]] bool Take(LogRecord::Kind kind, const LogRecord& record, int64_t time_ns,
                                   const FrameDefinitions& definitions) {
    switch (kind) {
      case LogRecord::kEnter:
        MoveTime(time_ns);
        Enter(definitions.variants()[record.definition()]);
        return true;
      case LogRecord::kLeave:
      case LogRecord::kRaise:
        return End(kind, record, time_ns);
      default:
        return TakeExtra(kind, record, time_ns, definitions);
    }
  }
  // Its views are valid as long as those of the record that was taken. Set the number of a call that is entered before
  // Apply.
  CallRecord& record() { return record_; }
  [[gnu::always_inline]] void Apply() {
    if (record_.kind == CallRecord::kEnter) {
      OpenCall& open = open_.Push();
      open.call = record_.call;
      open.time_ns = time_ns_;
      open.variant.id = record_.variant;
      open.variant.config = record_.config;
      open.variant.level = record_.level;
      open.unknown = 0;
      ++depth_;
      if (shown_.later) [[unlikely]] {
        recent_.Add(calls_, {open.call, open.variant});
      }
      ++calls_;
    } else if (record_.kind == CallRecord::kLater) [[unlikely]] {
      return HideNotes();
    } else if (record_.kind == CallRecord::kMemory) [[unlikely]] {
      return;
    } else {
      Pop();
    }
    if (has_extras_) [[unlikely]] {
      ForgetExtras(record_.kind == CallRecord::kEnter);
    }
  }

  // Clocks of different cores may differ a little; then time stays where it is. A larger step back means a damaged
  // frame without a checksum; follow it, so that the damage doesn't affect the times of all later records.
  void MoveTime(int64_t time_ns) {
    if (time_ns >= time_ns_ || time_ns < time_ns_ - kMaxSkewNs) time_ns_ = time_ns;
  }
  int64_t time_ns() const { return time_ns_; }
  const LogClock& clock() const { return *clock_; }

 private:
  static constexpr int64_t kMaxSkewNs = 1'000'000;

  struct OpenCall {
    uint64_t call = kNoCall;
    int64_t time_ns = 0;
    FrameDefinitions::Variant variant = {};
    uint64_t unknown = 0;  // for kNoCall: number of calls whose entry isn't in the log
  };

  struct RecentCall {
    uint64_t call;
    FrameDefinitions::Variant variant;
  };

  // What few calls have beside their times, and record_ has only of those.
  struct Extras {
    // Of the next call.
    StackId stack = kNoStack;
    RecordFacts facts = {};
    std::string notes = {};
    // Of the next end; empty: unknown.
    std::string values = {};
    std::string result_notes = {};
    std::string written = {};
  };

  [[gnu::always_inline]] void Enter(const FrameDefinitions::Variant& variant) {
    record_.kind = CallRecord::kEnter;
    record_.level = variant.level;
    record_.depth = static_cast<uint32_t>(std::min<uint64_t>(depth_, UINT32_MAX));
    record_.config = variant.config;
    record_.variant = variant.id;
    record_.tags = tags_now_;
    record_.parent = open_.empty() ? kNoCall : open_.back().call;
    record_.time_ns = time_ns_;
    record_.duration_ns = 0;
    record_.exception = {};
    if (has_extras_) [[unlikely]] {
      ShowExtras(/*entry=*/true);
    }
  }
  [[gnu::always_inline]] bool End(LogRecord::Kind kind, const LogRecord& record, int64_t time_ns) {
    if (open_.empty() || open_.back().call == kNoCall) [[unlikely]] {
      if (has_extras_) ForgetExtras(/*entry=*/false);
      Pop();
      return false;
    }
    MoveTime(time_ns);
    const OpenCall& call = open_.back();
    record_.kind = kind == LogRecord::kLeave ? CallRecord::kLeave : CallRecord::kRaise;
    record_.level = call.variant.level;
    record_.depth = static_cast<uint32_t>(std::min<uint64_t>(depth_ - 1, UINT32_MAX));
    record_.config = call.variant.config;
    record_.variant = call.variant.id;
    record_.call = call.call;
    record_.tags = kNoTags;
    record_.parent = open_.size() < 2 ? kNoCall : open_[open_.size() - 2].call;
    record_.time_ns = time_ns_;
    record_.duration_ns = time_ns_ - call.time_ns;
    record_.exception = kind == LogRecord::kRaise ? record.text() : std::string_view();
    if (has_extras_) [[unlikely]] {
      ShowExtras(/*entry=*/false);
    }
    return true;
  }
  // As Take.
  bool TakeExtra(LogRecord::Kind kind, const LogRecord& record, int64_t time_ns, const FrameDefinitions& definitions);
  bool TakeLater(const LaterNotes& later);
  bool TakeMemory(const LogRecord& record, int64_t time_ns);
  void ShowExtras(bool entry);
  void HideNotes();
  void ForgetExtras(bool entry);
  void Pop() {
    if (open_.empty()) return;
    --depth_;
    if (open_.back().unknown > 1) {
      --open_.back().unknown;
    } else {
      open_.Pop();
    }
  }

  const LogClock* const clock_;
  TagTable* const tags_;
  CallRecord record_;
  int64_t time_ns_ = 0;
  uint64_t calls_ = 0;           // entered, including lost ones
  uint32_t tags_now_ = kNoTags;  // of the next calls
  Extras extras_;
  bool has_extras_ = false;     // extras_ may have some, and record_ until Apply
  ReusedStack<OpenCall> open_;  // outermost first
  uint64_t depth_ = 0;          // calls in open_
  const RecordsShown shown_;
  RecentCalls<RecentCall> recent_;  // if shown_.later, by the thread's own numbers of its calls
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_THREAD_CALLS_H_
