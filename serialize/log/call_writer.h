// CallWriter encodes call records into a frame of a log. It is the hot path of
// a traced program: every method is a few stores, and the last one commits the
// record, so a process may die anywhere. Not thread-safe; owns nothing.
//
// The caller checks Fits() first, and moves on to another frame when a record
// does not fit.

#ifndef TORCHTRACE_SERIALIZE_LOG_CALL_WRITER_H_
#define TORCHTRACE_SERIALIZE_LOG_CALL_WRITER_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "serialize/base/bytes.h"
#include "serialize/log/log_format.h"
#include "serialize/log/log_writer.h"
#include "serialize/model/call_extras.h"
#include "serialize/model/memory_event.h"
#include "serialize/model/step_marks.h"

namespace torchtrace {

class CallWriter {
 public:
  // Maximum bytes of an enter or leave record, with the facts before it.
  static constexpr uint32_t kMaxEventBytes = (2 + 7) * kMaxVarintBytes;
  // Maximum bytes of a record with strings, without the strings.
  static constexpr uint32_t kMaxRecordOverhead = 10 * kMaxVarintBytes;

  CallWriter() = default;
  // Starts at the frame's first payload byte.
  explicit CallWriter(Frame frame)
      : frame_(frame), at_(frame.payload()), end_(frame.payload() + frame.payload_bytes()) {}

  bool open() const { return frame_.header != nullptr; }
  const Frame& frame() const { return frame_; }
  uint64_t calls() const { return calls_; }
  bool Fits(uint64_t bytes) const { return static_cast<uint64_t>(end_ - at_) >= bytes; }
  bool FitsEvent(uint64_t more_bytes = 0) const { return Fits(kMaxEventBytes + more_bytes); }

  // The first record of a frame. `time` is absolute; later times are deltas to
  // the previous record. A name longer than 255 bytes is cut.
  void Thread(uint64_t number, uint64_t os_id, uint64_t time, uint64_t calls_before, uint64_t open_calls,
              std::string_view name) {
    char body[5 * kMaxVarintBytes];
    char* b = EncodeVarint(number, body);
    b = EncodeVarint(os_id, b);
    b = EncodeVarint(time, b);
    b = EncodeVarint(calls_before, b);
    b = EncodeVarint(open_calls, b);
    name = name.substr(0, 255);
    char length[kMaxVarintBytes];
    char* const l = EncodeVarint(name.size(), length);
    char* to = Other(OtherRecord::kThread, (b - body) + (l - length) + name.size());
    to = Copy(body, b - body, to);
    to = Copy(length, l - length, to);
    Commit(Copy(name.data(), name.size(), to));
    last_time_ = time;
  }

  // Returns the definition's number in this frame.
  uint64_t Define(std::string_view identity, std::string_view facets) {
    char lengths[2 * kMaxVarintBytes];
    char* const first = EncodeVarint(identity.size(), lengths);
    char* const second = EncodeVarint(facets.size(), first);
    char* to = Other(OtherRecord::kDefine, (second - lengths) + identity.size() + facets.size());
    to = Copy(lengths, first - lengths, to);
    to = Copy(identity.data(), identity.size(), to);
    to = Copy(first, second - first, to);
    Commit(Copy(facets.data(), facets.size(), to));
    return definitions_++;
  }

  void Enter(uint64_t definition, uint64_t time) {
    char* to = EncodeVarint(definition << 2 | static_cast<uint64_t>(RecordKind::kEnter), at_);
    Commit(EncodeVarint(Delta(time), to));
    ++calls_;
  }
  void Leave(uint64_t time) { Commit(EncodeVarint(Delta(time) << 2 | static_cast<uint64_t>(RecordKind::kLeave), at_)); }
  // `exception` is cut to 255 bytes.
  void Raise(uint64_t time, std::string_view exception) {
    exception = exception.substr(0, 255);
    char* to = EncodeVarint(Delta(time) << 2 | static_cast<uint64_t>(RecordKind::kRaise), at_);
    to = EncodeVarint(exception.size(), to);
    Commit(Copy(exception.data(), exception.size(), to));
  }
  // `json`: an object's text; empty: no tags from here on.
  void Tags(std::string_view json) {
    char length[kMaxVarintBytes];
    char* const l = EncodeVarint(json.size(), length);
    char* to = Other(OtherRecord::kTags, (l - length) + json.size());
    to = Copy(length, l - length, to);
    Commit(Copy(json.data(), json.size(), to));
  }

  // Where in its steps the program is from here on; the marks before were `before`, by the thread's part.
  void Steps(const StepMarks& before, const StepMarks& now) {
    char body[1 + 2 * kStepKinds * kMaxVarintBytes] = "";
    char* b = body + 1;
    for (size_t i = 0; i < kStepKinds; ++i) {
      if (now.of[i] == before.of[i]) continue;
      body[0] = static_cast<char>(body[0] | 1 << i);
      b = EncodeVarint(ZigZag(static_cast<int64_t>(now.of[i].number - before.of[i].number)), b);
      b = EncodeVarint(ZigZag(now.of[i].begin_ns - before.of[i].begin_ns), b);
    }
    Append(OtherRecord::kSteps, {body, static_cast<size_t>(b - body)});
  }

  // Maximum length of each text of a code record.
  static constexpr uint32_t kMaxCodeText = 4096;
  // Maximum bytes of a place or stack record.
  static constexpr uint32_t kMaxPlaceBytes = 5 * kMaxVarintBytes;
  // Returns the code's number in this frame. Each text is cut to kMaxCodeText bytes.
  uint64_t Code(bool library, std::string_view file, std::string_view function, std::string_view module) {
    const std::string_view texts[] = {file.substr(0, kMaxCodeText), function.substr(0, kMaxCodeText),
                                      module.substr(0, kMaxCodeText)};
    char lengths[3][kMaxVarintBytes];
    size_t length_bytes[3];
    size_t bytes = 1;
    for (int i = 0; i < 3; ++i) {
      length_bytes[i] = static_cast<size_t>(EncodeVarint(texts[i].size(), lengths[i]) - lengths[i]);
      bytes += length_bytes[i] + texts[i].size();
    }
    char* to = Other(OtherRecord::kCode, bytes);
    *to++ = library ? 1 : 0;
    for (int i = 0; i < 3; ++i) {
      to = Copy(lengths[i], length_bytes[i], to);
      to = Copy(texts[i].data(), texts[i].size(), to);
    }
    Commit(to);
    return codes_++;
  }
  // Returns the place's number in this frame. `caller`: 0, or a place's number plus 1.
  uint64_t Place(uint64_t code, uint64_t line, uint64_t caller) {
    char body[3 * kMaxVarintBytes];
    char* const b = EncodeVarint(caller, EncodeVarint(line, EncodeVarint(code, body)));
    Append(OtherRecord::kPlace, {body, static_cast<size_t>(b - body)});
    return places_++;
  }
  // `name`: an operator's, as in definitions.
  void Schema(std::string_view name, std::string_view schema) {
    char lengths[2 * kMaxVarintBytes];
    char* const first = EncodeVarint(name.size(), lengths);
    char* const second = EncodeVarint(schema.size(), first);
    char* to = Other(OtherRecord::kSchema, (second - lengths) + name.size() + schema.size());
    to = Copy(lengths, first - lengths, to);
    to = Copy(name.data(), name.size(), to);
    to = Copy(first, second - first, to);
    Commit(Copy(schema.data(), schema.size(), to));
  }
  // Appends a record whose body is already encoded.
  void Append(OtherRecord record, std::string_view body) {
    Commit(Copy(body.data(), body.size(), Other(record, body.size())));
  }
  // The place where the next call is entered.
  void Stack(uint64_t place) {
    char body[kMaxVarintBytes];
    char* const b = EncodeVarint(place, body);
    Append(OtherRecord::kStack, {body, static_cast<size_t>(b - body)});
  }
  // Facts of the next call.
  void Facts(const RecordFacts& facts) {
    char body[5 * kMaxVarintBytes];
    char* b = EncodeVarint(facts.thread, EncodeVarint(facts.scope, body));
    b = EncodeVarint(facts.forward_thread, EncodeVarint(ZigZag(facts.sequence), b));
    b = EncodeVarint(facts.id, b);
    Append(OtherRecord::kFacts, {body, static_cast<size_t>(b - body)});
  }
  // Notes on the next call's tensors.
  void Notes(std::string_view notes) { Append(OtherRecord::kNotes, notes); }
  // The result of the innermost call, before its end.
  void Result(const CallResult& result) {
    char length[kMaxVarintBytes];
    char* const l = EncodeVarint(result.values.size(), length);
    const auto length_bytes = static_cast<size_t>(l - length);
    char* to = Other(OtherRecord::kResult, length_bytes + result.values.size() + result.notes.size());
    to = Copy(length, length_bytes, to);
    to = Copy(result.values.data(), result.values.size(), to);
    Commit(Copy(result.notes.data(), result.notes.size(), to));
  }
  // Notes on tensors that the innermost call wrote, before its end.
  void Written(std::string_view notes) { Append(OtherRecord::kWritten, notes); }
  // Notes on tensors of an earlier call of the thread.
  void Later(const LaterNotes& later) {
    char head[2 * kMaxVarintBytes];
    char* const h = EncodeVarint(static_cast<uint64_t>(later.of), EncodeVarint(later.calls_since, head));
    const auto head_bytes = static_cast<size_t>(h - head);
    char* const to = Copy(head, head_bytes, Other(OtherRecord::kLater, head_bytes + later.notes.size()));
    Commit(Copy(later.notes.data(), later.notes.size(), to));
  }
  // Fits where an event does. The times of later records don't count from this one's.
  void Memory(const MemoryEvent& event, uint64_t time) {
    const uint64_t head =
        uint64_t{event.device.index} << 3 | static_cast<uint64_t>(event.device.kind) << 1 | (event.freed ? 1 : 0);
    char body[4 * kMaxVarintBytes];
    char* b = EncodeVarint(event.bytes, EncodeVarint(event.address, EncodeVarint(head, body)));
    b = EncodeVarint(time <= last_time_ ? 0 : time - last_time_, b);
    Append(OtherRecord::kMemory, {body, static_cast<size_t>(b - body)});
  }

 private:
  static char* Copy(const char* from, size_t bytes, char* to) {
    if (bytes != 0) std::memcpy(to, from, bytes);  // an empty view may be null
    return to + bytes;
  }
  char* Other(OtherRecord record, uint64_t body_bytes) {
    char* to = EncodeVarint(static_cast<uint64_t>(record) << 2 | static_cast<uint64_t>(RecordKind::kOther), at_);
    return EncodeVarint(body_bytes, to);
  }
  // Clocks of different cores may differ a little; recorded time never goes back.
  uint64_t Delta(uint64_t time) {
    if (time <= last_time_) return 0;
    const uint64_t delta = time - last_time_;
    last_time_ = time;
    return delta;
  }
  // CRITICAL: readers of a frame that was never closed trust this word.
  void Commit(char* to) {
    at_ = to;
    std::atomic_ref<uint32_t>(frame_.header->committed_bytes)
        .store(static_cast<uint32_t>(to - frame_.payload()), std::memory_order_release);
  }

  Frame frame_;
  char* at_ = nullptr;
  char* end_ = nullptr;
  uint64_t last_time_ = 0;
  uint64_t calls_ = 0;
  uint64_t definitions_ = 0;
  uint64_t codes_ = 0;
  uint64_t places_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_CALL_WRITER_H_
