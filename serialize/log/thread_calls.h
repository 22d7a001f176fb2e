// Turning the records of one thread into CallRecords: definitions of the frame, open calls, times.

#ifndef TORCHTRACE_SERIALIZE_LOG_THREAD_CALLS_H_
#define TORCHTRACE_SERIALIZE_LOG_THREAD_CALLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "serialize/log/call_reader.h"
#include "serialize/log/log_metadata.h"
#include "serialize/log/log_survey.h"
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

  // The payload offset up to which definitions were added. Those before it are ignored.
  uint64_t end() const { return end_; }
  void set_end(uint64_t end) { end_ = end; }

  // For the record kinds with these names.
  void Define(const CallReader& reader, ConfigTable* configs);
  void DefineCode(const CallReader& reader, StackTable* stacks);
  void DefinePlace(const CallReader& reader, StackTable* stacks);

  // By definition.
  const std::vector<Variant>& variants() const { return variants_; }
  StackId stack(uint64_t place) const { return place < places_.size() ? places_[place] : kNoStack; }

  void Clear();

 private:
  bool IsNew(const CallReader& reader);

  uint64_t end_ = 0;
  std::vector<Variant> variants_;
  std::vector<uint32_t> codes_;  // of the StackTable, by the code's number in the frame
  std::vector<StackId> places_;  // by the place's number
};

// ThreadCalls takes the records of one thread in program order and makes the CallRecords of its calls' entries and
// ends. It tracks the open calls, so that every end finds its entry; ends without one are left out.
class ThreadCalls {
 public:
  // All must outlive it. `process` is an index into Trace::processes().
  ThreadCalls(uint32_t process, uint32_t thread, const LogClock* clock, TagTable* tags);

  // Whether the segment certainly follows the records taken so far.
  bool Continues(const LogSegment& segment) const {
    return segment.calls_before == calls_ && segment.open_calls == depth_;
  }
  // Call it before the records of a segment.
  void Begin(const LogSegment& segment);

  // True if the record is a call's entry or end, which record() then is, and Apply must follow. Definitions are
  // ignored; an entry must have one.
  bool Take(CallReader::Kind kind, const CallReader& reader, const FrameDefinitions& definitions) {
    switch (kind) {
      case CallReader::kEnter:
        Enter(reader, definitions.variants()[reader.definition()]);
        return true;
      case CallReader::kLeave:
      case CallReader::kRaise:
        return End(kind, reader);
      default:
        TakeExtra(kind, reader, definitions);
        return false;
    }
  }
  // Its views are valid until the reader moves. Set the number of a call that is entered before Apply.
  CallRecord& record() { return record_; }
  void Apply() {
    if (record_.kind == CallRecord::kEnter) {
      open_.push_back({record_.call, time_ns_, {record_.variant, record_.config, record_.level}, 0});
      ++depth_;
      ++calls_;
    } else {
      Pop();
    }
    if (has_extras_ || shows_extras_) [[unlikely]] {
      ForgetExtras(record_.kind == CallRecord::kEnter);
    }
  }

  // Clocks of different cores may differ a little; then time stays where it is. A larger step back means a damaged
  // frame without a checksum; follow it, so that the damage doesn't affect the times of all later records.
  void MoveTime(uint64_t units) {
    const int64_t time_ns = clock_->Nanoseconds(units);
    if (time_ns >= time_ns_ || time_ns < time_ns_ - kMaxSkewNs) time_ns_ = time_ns;
  }
  int64_t time_ns() const { return time_ns_; }

 private:
  static constexpr int64_t kMaxSkewNs = 1'000'000;

  struct OpenCall {
    uint64_t call = kNoCall;
    int64_t time_ns = 0;
    FrameDefinitions::Variant variant = {};
    uint64_t unknown = 0;  // for kNoCall: number of calls whose entry isn't in the log
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
  };

  void Enter(const CallReader& reader, const FrameDefinitions::Variant& variant);
  bool End(CallReader::Kind kind, const CallReader& reader);
  void TakeExtra(CallReader::Kind kind, const CallReader& reader, const FrameDefinitions& definitions);
  void ShowExtras(bool entry);
  void ForgetExtras(bool entry);
  void Pop() {
    if (open_.empty()) return;
    --depth_;
    if (open_.back().unknown > 1) {
      --open_.back().unknown;
    } else {
      open_.pop_back();
    }
  }

  const LogClock* const clock_;
  TagTable* const tags_;
  CallRecord record_;
  int64_t time_ns_ = 0;
  uint64_t calls_ = 0;           // entered, including lost ones
  uint32_t tags_now_ = kNoTags;  // of the next calls
  Extras extras_;
  bool has_extras_ = false;     // extras_ may have some
  bool shows_extras_ = false;   // record_ has some
  std::vector<OpenCall> open_;  // outermost first
  uint64_t depth_ = 0;          // calls in open_
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_THREAD_CALLS_H_
