// Reading the records of calls.

#ifndef TORCHTRACE_SERIALIZE_LOG_CALL_READER_H_
#define TORCHTRACE_SERIALIZE_LOG_CALL_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "serialize/base/bytes.h"
#include "serialize/log/log_format.h"
#include "serialize/log/log_reader.h"
#include "serialize/model/call_extras.h"
#include "serialize/model/memory_event.h"
#include "serialize/model/step_marks.h"

namespace torchtrace {

// A record of a call frame.
class LogRecord {
 public:
  enum Kind : uint8_t {
    kEnter,    // definition(), time()
    kLeave,    // time()
    kRaise,    // time(), text(): the exception's type
    kDefine,   // identity(), facets()
    kThread,   // thread()
    kDropped,  // count(), text(): the reason
    kTags,     // text(): a JSON object, or empty
    kCode,     // code()
    kPlace,    // place()
    kStack,    // count(): the place's number
    kFacts,    // facts_of_call()
    kNotes,    // text(): tensor_notes.h
    kResult,   // result()
    kSchema,   // schema_name(), schema()
    kWritten,  // text(): tensor_notes.h
    kLater,    // later()
    kMemory,   // memory(), count(): the time since time()
    kSteps,    // MoveSteps()
    kUnknown,  // of a later version
    kLast = kUnknown,
    kEnd,     // the part ends after a whole record
    kBroken,  // the record at offset() is cut, malformed or was never written
  };
  struct ThreadRecord {
    uint64_t number = 0;
    uint64_t os_id = 0;
    uint64_t time = 0;
    uint64_t calls_before = 0;
    uint64_t open_calls = 0;
    std::string_view name;
  };

  struct CodeRecord {
    uint64_t bits = 0;
    std::string_view file;
    std::string_view function;
    std::string_view module;
  };
  struct PlaceRecord {
    uint64_t code = 0;
    uint64_t line = 0;
    uint64_t caller = 0;  // 0: none, otherwise the caller's number plus 1
  };

  uint64_t definition() const { return definition_; }
  uint64_t time() const { return time_; }
  uint64_t count() const { return count_; }
  std::string_view text() const { return text_; }
  std::string_view identity() const { return text_; }
  std::string_view facets() const { return facets_; }
  const ThreadRecord& thread() const { return thread_; }
  const CodeRecord& code() const { return code_; }
  const PlaceRecord& place() const { return place_; }
  const RecordFacts& facts_of_call() const { return facts_of_call_; }
  CallResult result() const { return {text_, facets_}; }
  LaterNotes later() const { return {count_, later_of_, text_}; }
  const MemoryEvent& memory() const { return memory_; }
  // The marks that follow these.
  StepMarks MoveSteps(const StepMarks& before) const;
  std::string_view schema_name() const { return text_; }
  std::string_view schema() const { return facets_; }
  // The bytes of the fields; none of kEnter and kLeave.
  std::string_view body() const { return body_; }

  // Take the fields of a record that was read elsewhere, but not time(). Those with a body need it as long as they are
  // used; false if it is malformed.
  void SetDefinition(uint64_t definition) { definition_ = definition; }
  bool Parse(Kind kind, std::string_view body);

 protected:
  // Of an OtherRecord's number, which isn't 0.
  static Kind KindOf(uint64_t other);

  uint64_t time_ = 0;
  uint64_t definition_ = 0;
  uint64_t count_ = 0;
  LaterOf later_of_ = LaterOf::kArguments;
  std::string_view body_;
  std::string_view text_;
  std::string_view facets_;
  ThreadRecord thread_;
  CodeRecord code_;
  PlaceRecord place_;
  RecordFacts facts_of_call_;
  MemoryEvent memory_;
  StepMarks steps_;  // differences, modulo 2^64
};

// CallReader decodes the call records of one frame, or of a part of it: the
// inverse of CallWriter. It reads the file through its own window and
// allocates nothing per record. Not thread-safe; the LogFile must outlive it.
//
//   CallReader reader(&file, payload_offset, 0, payload_bytes);
//   for (auto kind = reader.Next(); kind <= CallReader::kLast; kind = reader.Next()) ...
class CallReader : public LogRecord {
 public:
  // Large enough to make system calls rare, small enough for one per thread.
  static constexpr uint64_t kWindowBytes = 64 << 10;

  // Reads payload bytes [begin, end) of the frame whose payload starts at
  // `payload_offset` in the file.
  CallReader(const LogFile* file, uint64_t payload_offset, uint64_t begin, uint64_t end,
             uint64_t window_bytes = kWindowBytes);

  // For a part that doesn't begin with a thread's record: the time of the record before it.
  void StartAt(uint64_t time) { time_ = time; }

  // Moves to the next record. Views stay valid until the next call. Must not be
  // called after kEnd or kBroken.
  [[gnu::always_inline]] Kind Next() {
    if (end_ - at_ < kSlackBytes && file_at_ < file_end_) Fill(at_, kSlackBytes);
    start_ = at_;
    if (at_ == end_) return kEnd;
    // kSlackBytes zeros follow end_, so an event can be decoded without checking
    // the end first.
    uint64_t head, delta;
    const char* at = TakeVarint(at_, &head);
    if (at == nullptr) return kBroken;
    switch (static_cast<RecordKind>(head & 3)) {
      case RecordKind::kEnter:
        at = TakeVarint(at, &delta);
        if (at == nullptr || at > end_) return kBroken;
        at_ = at;
        definition_ = head >> 2;
        time_ += delta;
        return kEnter;
      case RecordKind::kLeave:
        if (at > end_) return kBroken;
        at_ = at;
        time_ += head >> 2;
        return kLeave;
      default:
        at_ = at;
        return NextWithBody(head);
    }
  }

  // Payload offsets of the current record and of the one after it.
  uint64_t offset() const { return base_ + static_cast<uint64_t>(start_ - buffer_.get()); }
  uint64_t next_offset() const { return base_ + static_cast<uint64_t>(at_ - buffer_.get()); }

 private:
  // More than an enter record's two varints.
  static constexpr ptrdiff_t kSlackBytes = 32;

  // Needs kMaxVarintBytes readable bytes. Returns the byte after the number; null: it is malformed.
  [[gnu::always_inline]] static const char* TakeVarint(const char* at, uint64_t* value) {
    const auto byte = [at](int i) { return static_cast<uint64_t>(static_cast<uint8_t>(at[i])); };
    *value = byte(0);
    if (*value < 0x80) return at + 1;
    *value = (*value & 0x7f) | byte(1) << 7;
    if (byte(1) < 0x80) return at + 2;
    *value = (*value & 0x3fff) | byte(2) << 14;
    if (byte(2) < 0x80) return at + 3;
    return TakeLongVarint(at, value);
  }
  static const char* TakeLongVarint(const char* at, uint64_t* value);
  Kind NextWithBody(uint64_t head);
  bool TakeString(uint64_t bytes, std::string_view* text);
  // Moves the window so that it starts at `keep` and holds `bytes` from there, or
  // fewer if the part ends before.
  void Fill(const char* keep, uint64_t bytes);

  const LogFile* const file_;
  uint64_t file_at_;   // the file's next byte to bring into the window
  uint64_t file_end_;  // where the part ends in the file
  std::unique_ptr<char[]> buffer_;
  size_t buffer_bytes_;
  uint64_t base_;  // the payload offset of the window's first byte
  const char* start_;
  const char* at_;
  const char* end_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_CALL_READER_H_
