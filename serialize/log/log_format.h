// The log's fixed numbers and structures, which CallWriter, LogWriter and the
// readers share. docs/FORMAT.md is the specification; a change here is a change
// of the format and needs a new version there.
//
// A log is a superblock page followed by frames. Every frame starts at a
// multiple of kPageBytes. All integers are little endian.

#ifndef TORCHTRACE_SERIALIZE_LOG_LOG_FORMAT_H_
#define TORCHTRACE_SERIALIZE_LOG_LOG_FORMAT_H_

#include <cstddef>
#include <cstdint>

namespace torchtrace {

inline constexpr char kLogMagic[8] = {'T', 'T', 'L', 'O', 'G', '\r', '\n', '\x1a'};
// The version that a traced process writes, the one that TraceWriter writes, and the newest.
inline constexpr uint32_t kOneProcessVersion = 1;
inline constexpr uint32_t kManyProcessesVersion = 2;
inline constexpr uint32_t kLogVersion = kManyProcessesVersion;
inline constexpr uint32_t kFrameMagic = 0x52465454;  // "TTFR"
inline constexpr uint32_t kPageBytes = 4096;

// The first page of the file; the rest of the page is zero.
struct Superblock {
  char magic[8];
  uint32_t version;
  uint32_t page_bytes;
  uint64_t hash;  // XXH3_64 of the 16 bytes above
};
static_assert(sizeof(Superblock) == 24);

enum class FrameType : uint16_t {
  kMetadata = 1,  // payload: one JSON object, merged over the earlier ones of its process
  kCalls = 2,     // payload: call records
  // The last frame of a log of many processes. Payload: varint processes, then
  // for each number from 0 varint frames, varint calls.
  kClosing = 3,
  kCounts = 4,  // payload: a CountHeader and its configuration, again and again: calls that are counted, not listed
};

// Of one configuration in a frame of counts. Its identity and facets (config.h) follow, and zeros up to a multiple of 8
// bytes.
struct CountHeader {
  uint64_t calls;  // at least 1; changes while the frame is open
  uint32_t identity_bytes;
  uint32_t facets_bytes;
};
static_assert(sizeof(CountHeader) == 16);

// Fields that are set when a frame is reserved, that the writer commits while
// the frame is open, and that are set when it is closed. A process that dies
// leaves its frames open: then only committed_bytes says how much is valid.
struct FrameHeader {
  // Fixed at opening, covered by open_hash.
  uint32_t magic;
  uint16_t type;  // FrameType; readers skip unknown ones
  uint16_t reserved0;
  uint32_t capacity_bytes;  // of the whole frame, this header included
  uint32_t process;         // the owner's number; 0 in a log of one process
  uint64_t sequence;        // the frame's number in the file, from 0
  uint64_t open_hash;       // XXH3_64 of the 24 bytes above
  // The commit word: payload bytes that hold whole records.
  uint32_t committed_bytes;
  uint32_t closed;  // 0 while open, kFrameClosed after
  // Written at closing.
  uint64_t calls;         // enter records in the payload; in a frame of counts, their sum
  uint64_t payload_hash;  // XXH3_64 of the committed payload
  uint64_t close_hash;    // XXH3_64 of committed_bytes .. payload_hash
};
static_assert(sizeof(FrameHeader) == 64);
inline constexpr uint32_t kFrameClosed = 0x44534c43;  // "CLSD"
inline constexpr size_t kOpenHashedBytes = 24;
inline constexpr size_t kCloseHashedOffset = 32;
inline constexpr size_t kCloseHashedBytes = 24;

// Call records start with a varint; its low two bits are the kind, the rest is
// the record's first operand. No record starts with a zero byte, so bytes that
// were reserved but never written can't be mistaken for calls.
enum class RecordKind : uint8_t {
  kOther = 0,  // operand: OtherRecord; then varint body bytes, body
  kEnter = 1,  // operand: definition id; then varint time delta
  kLeave = 2,  // operand: time delta
  kRaise = 3,  // operand: time delta; then the exception's type, a string
};

enum class OtherRecord : uint8_t {
  // Body: string identity (see config.h), string facets. Definitions are
  // numbered from 0 in each frame, and hold until the frame's end.
  kDefine = 1,
  // Body: varint thread number, varint OS thread id, varint absolute time,
  // varint calls this thread entered before, varint open calls, string name.
  // The first record of every frame, repeated wherever another thread continues in it.
  kThread = 2,
  // Body: varint count, string reason: calls that were not recorded.
  kDropped = 3,
  // Body: string tags, a JSON object's text, or empty. They apply to the calls that the
  // thread enters from here on, up to the next such record or thread record.
  kTags = 4,
  // Body: varint bits (1: it contains no calling line), string file, string function, string
  // module. Python code that places refer to; numbered from 0 in each frame, like definitions.
  kCode = 5,
  // Body: varint code, varint line, varint caller: 0, or the caller's place number plus 1.
  // Numbered in the same way.
  kPlace = 6,
  // Body: varint place, at which the thread enters its next call.
  kStack = 7,
  // Body: varint scope, varint thread, zigzag sequence number, varint forward thread, varint id: RecordFunction's
  // facts of the call that the thread enters next (record_facts.h).
  kFacts = 8,
  // Body: notes on the tensors of the call that the thread enters next (tensor_notes.h).
  kNotes = 9,
  // Body: string values (varint n, value * n), notes on their tensors: the result of the thread's innermost call.
  kResult = 10,
  // Body: string name, string schema: of an operator, before the log's first definition that names it. For each
  // name, a process's last one applies.
  kSchema = 11,
  // Body: notes on tensors of the thread's innermost call, as they are before its end: those that it wrote.
  kWritten = 12,
  // Body: varint calls, varint which, notes: on tensors of an earlier call, known only now. `calls`: how many the
  // thread
  // has entered since that one, below kRecentCalls. `which`: LaterOf.
  kLater = 13,
  // Body: varint index * 8 + kind * 2 + (1: the end of an allocation), varint address, varint bytes, varint time since
  // the record before: memory that the thread allocated or freed, within its innermost call.
  kMemory = 14,
  // Body: varint bits (1: forward, 2: step, 4: tag), then for each set, lowest first, zigzag number, zigzag
  // nanoseconds:
  // by how much these marks (step_marks.h) differ from those of the thread's tags or step record before it, which
  // apply on. Since then the program's own tags are the same.
  kSteps = 16,
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_LOG_FORMAT_H_
