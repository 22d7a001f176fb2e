// Reading the calls of one thread in program order, segment by segment, whichever frames they are in.

#ifndef TORCHTRACE_SERIALIZE_LOG_THREAD_READER_H_
#define TORCHTRACE_SERIALIZE_LOG_THREAD_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "serialize/log/call_reader.h"
#include "serialize/log/log_reader.h"
#include "serialize/log/log_survey.h"
#include "serialize/log/thread_calls.h"
#include "serialize/trace/tables.h"

namespace torchtrace {

// The definitions of the frames of one log that are being read. A frame's are kept until its last segment was read.
class LogDefinitions {
 public:
  // All must outlive it. Readers of the log get windows of `window_bytes`.
  LogDefinitions(const LogReader* log, ConfigTable* configs, StackTable* stacks,
                 uint64_t window_bytes = CallReader::kWindowBytes)
      : log_(log), configs_(configs), stacks_(stacks), window_bytes_(window_bytes) {}

  // Keeps the file open between segments, while another thread reads it.
  void StayOpen() { ++in_use_; }
  // A segment that will be read.
  void Expect(const LogSegment& segment) { ++frames_[segment.frame].segments_left; }

  CallReader Reader(const LogSegment& segment, uint64_t begin, uint64_t end) const {
    return CallReader(&log_->file(), log_->frames()[segment.frame].payload_offset(), begin, end, window_bytes_);
  }
  // A frame's definitions, as far as they were read.
  struct Read {
    FrameDefinitions definitions;
    uint64_t end = 0;  // payload offset
  };
  // With all definitions before `segment`; call Add for each record in it.
  Read* Acquire(const LogSegment& segment);
  void Add(CallReader::Kind kind, const CallReader& reader, Read* read) const {
    if (kind < CallReader::kDefine || reader.offset() < read->end) return;
    read->end = reader.next_offset();
    read->definitions.Add(kind, reader, configs_, stacks_);
  }
  // Call it after reading the segment.
  void Release(const LogSegment& segment);

 private:
  struct Frame {
    std::unique_ptr<Read> read;
    uint32_t segments_left = 0;
  };

  const LogReader* const log_;
  ConfigTable* const configs_;
  StackTable* const stacks_;
  const uint64_t window_bytes_;
  absl::flat_hash_map<uint32_t, Frame> frames_;
  uint64_t in_use_ = 0;
};

class ThreadReader {
 public:
  enum State : uint8_t {
    kSegment,  // the next segment may be opened; nothing comes before ThreadCalls::time_ns()
    kRecord,   // of ThreadCalls
    kDone,
  };

  // All must outlive it. `definitions` expects the segments. Starts before the first.
  ThreadReader(const std::vector<LogSegment>* segments, LogDefinitions* definitions, ThreadCalls* calls);

  State state() const { return state_; }

  // Opens the segment, or applies the record, and moves on.
  void Advance();

 private:
  void CloseSegment();

  const std::vector<LogSegment>* const segments_;
  LogDefinitions* const definitions_;
  ThreadCalls* const calls_;
  size_t next_segment_ = 0;
  std::optional<CallReader> reader_;  // of segment next_segment_ - 1
  LogDefinitions::Read* frame_ = nullptr;
  State state_ = kDone;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_THREAD_READER_H_
