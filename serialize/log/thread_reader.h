// ThreadReader reads the calls of one thread in program order, segment by
// segment, whichever frame they are in. It tracks the open calls, so that
// every end finds its entry. Not thread-safe.

#ifndef TORCHTRACE_SERIALIZE_LOG_THREAD_READER_H_
#define TORCHTRACE_SERIALIZE_LOG_THREAD_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "serialize/log/call_reader.h"
#include "serialize/log/log_metadata.h"
#include "serialize/log/log_reader.h"
#include "serialize/log/log_survey.h"
#include "serialize/model/call_extras.h"
#include "serialize/trace/tables.h"

namespace torchtrace {

// The definitions of the frames of one log that are being read. A definition
// applies to its whole frame, including other threads that continue in it later,
// so a frame's table lives until its last segment was read.
class FrameDefinitions {
 public:
  struct Table {
    std::vector<VariantId> variants;  // by definition
    std::vector<uint32_t> codes;      // of the StackTable, by the code's number in the frame
    std::vector<StackId> places;      // by the place's number
    uint64_t end = 0;                 // the payload offset up to which definitions were added
    uint32_t segments_left = 0;
  };

  // All must outlive it. Readers of the log get windows of `window_bytes`.
  FrameDefinitions(const LogReader* log, ConfigTable* configs, TagTable* tags, StackTable* stacks,
                   uint64_t window_bytes = CallReader::kWindowBytes);
  // Call it before reading any of the threads.
  void AddThreads(const std::vector<LogThread>& threads);

  const LogReader& log() const { return *log_; }
  TagTable* tags() const { return tags_; }
  uint64_t window_bytes() const { return window_bytes_; }

  // The table with all definitions before `segment`; call Define, DefineCode or DefinePlace
  // for each definition in it.
  Table* Acquire(const LogSegment& segment);
  void Define(const CallReader& reader, Table* table) {
    if (reader.offset() < table->end) return;
    table->variants.push_back(configs_->Intern(reader.identity(), reader.facets()));
    table->end = reader.next_offset();
  }
  void DefineCode(const CallReader& reader, Table* table) {
    if (reader.offset() < table->end) return;
    const CallReader::CodeRecord& code = reader.code();
    table->codes.push_back(stacks_->InternCode({code.file, code.function, code.module, (code.bits & 1) != 0}));
    table->end = reader.next_offset();
  }
  void DefinePlace(const CallReader& reader, Table* table) {
    if (reader.offset() < table->end) return;
    const CallReader::PlaceRecord& place = reader.place();
    // A damaged log may refer to code or places that don't exist; that gives no stack.
    StackId stack = kNoStack;
    if (place.code < table->codes.size() && place.caller <= table->places.size()) {
      const StackId caller = place.caller == 0 ? kNoStack : table->places[place.caller - 1];
      stack = stacks_->InternPlace({caller, table->codes[place.code], static_cast<uint32_t>(place.line)});
    }
    table->places.push_back(stack);
    table->end = reader.next_offset();
  }
  // Call it after reading the segment.
  void Release(const LogSegment& segment);

 private:
  const LogReader* const log_;
  ConfigTable* const configs_;
  TagTable* const tags_;
  StackTable* const stacks_;
  const uint64_t window_bytes_;
  std::vector<uint32_t> segments_;  // by frame
  absl::flat_hash_map<uint32_t, std::unique_ptr<Table>> tables_;
  uint64_t in_use_ = 0;
};

class ThreadReader {
 public:
  enum State : uint8_t {
    kSegment,  // the next segment may be opened; nothing comes before time_ns()
    kEnter,
    kLeave,
    kRaise,
    kDone,
  };
  static constexpr uint64_t kUnknownCall = UINT64_MAX;
  struct OpenCall {
    uint64_t call = kUnknownCall;
    int64_t time_ns = 0;
    VariantId variant = 0;
    uint64_t unknown = 0;  // for kUnknownCall: number of calls whose entry isn't in the log
  };

  // All must outlive it. Starts before the first segment.
  ThreadReader(const LogThread* thread, const LogClock* clock, FrameDefinitions* definitions);

  State state() const { return state_; }
  int64_t time_ns() const { return time_ns_; }
  VariantId variant() const { return variant_; }                  // kEnter
  std::string_view exception() const { return reader_->text(); }  // kRaise
  uint32_t tags() const { return tags_; }                         // kEnter
  StackId stack() const { return stack_; }                        // kEnter
  const RecordFacts& facts() const { return facts_; }             // kEnter
  std::string_view notes() const { return notes_; }               // kEnter
  CallResult result() const { return {values_, result_notes_}; }  // kLeave
  uint64_t depth() const { return depth_; }
  // The innermost open call; null when there is none or its entry is unknown.
  const OpenCall* innermost() const {
    return open_.empty() || open_.back().call == kUnknownCall ? nullptr : &open_.back();
  }
  // The call around the innermost one, or kUnknownCall.
  uint64_t outer_call() const { return open_.size() < 2 ? kUnknownCall : open_[open_.size() - 2].call; }

  // Advances: opens the segment, records the call that was entered under the
  // number `call`, or drops the one that was left.
  void Advance(uint64_t call = kUnknownCall);

 private:
  void OpenSegment();
  void CloseSegment();
  void Pop();
  void ForgetResult();
  void MoveTime(uint64_t units);

  const LogThread* const thread_;
  const LogClock* const clock_;
  FrameDefinitions* const definitions_;
  size_t next_segment_ = 0;
  std::optional<CallReader> reader_;  // of segment next_segment_ - 1
  FrameDefinitions::Table* table_ = nullptr;

  State state_ = kDone;
  int64_t time_ns_ = 0;
  VariantId variant_ = 0;
  uint32_t tags_ = kNoTags;
  StackId stack_ = kNoStack;  // of the next call
  RecordFacts facts_;         // of the next call
  std::string notes_;         // the same
  std::string values_;        // of the next end; empty: unknown
  std::string result_notes_;
  std::vector<OpenCall> open_;  // outermost first
  uint64_t depth_ = 0;          // calls in open_
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_THREAD_READER_H_
