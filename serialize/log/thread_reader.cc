#include "serialize/log/thread_reader.h"

#include <algorithm>

namespace torchtrace {
namespace {
constexpr int64_t kMaxSkewNs = 1'000'000;
}  // namespace

FrameDefinitions::FrameDefinitions(const LogReader* log, ConfigTable* configs, TagTable* tags, StackTable* stacks,
                                   uint64_t window_bytes)
    : log_(log),
      configs_(configs),
      tags_(tags),
      stacks_(stacks),
      window_bytes_(window_bytes),
      segments_(log->frames().size()) {}

void FrameDefinitions::AddThreads(const std::vector<LogThread>& threads) {
  for (const LogThread& thread : threads) {
    for (const LogSegment& segment : thread.segments) ++segments_[segment.frame];
  }
}

FrameDefinitions::Table* FrameDefinitions::Acquire(const LogSegment& segment) {
  ++in_use_;
  std::unique_ptr<Table>& table = tables_[segment.frame];
  if (table == nullptr) {
    table = std::make_unique<Table>();
    table->segments_left = segments_[segment.frame];
  }
  if (table->end < segment.begin) {
    CallReader reader(&log_->file(), log_->frames()[segment.frame].payload_offset(), table->end, segment.begin,
                      window_bytes_);
    for (auto kind = reader.Next(); kind <= CallReader::kLast; kind = reader.Next()) {
      if (kind == CallReader::kDefine) Define(reader, table.get());
      if (kind == CallReader::kCode) DefineCode(reader, table.get());
      if (kind == CallReader::kPlace) DefinePlace(reader, table.get());
    }
    table->end = segment.begin;
  }
  return table.get();
}

void FrameDefinitions::Release(const LogSegment& segment) {
  const auto table = tables_.find(segment.frame);
  table->second->end = std::max<uint64_t>(table->second->end, segment.end);
  if (--table->second->segments_left == 0) tables_.erase(table);
  if (--in_use_ == 0) log_->file().Rest();
}

ThreadReader::ThreadReader(const LogThread* thread, const LogClock* clock, FrameDefinitions* definitions)
    : thread_(thread), clock_(clock), definitions_(definitions) {
  CloseSegment();
}

void ThreadReader::Advance(uint64_t call) {
  switch (state_) {
    case kSegment:
      OpenSegment();
      break;
    case kEnter:
      open_.push_back({call, time_ns_, variant_, 0});
      stack_ = kNoStack;
      facts_ = RecordFacts();
      notes_.clear();
      ++depth_;
      break;
    case kLeave:
    case kRaise:
      ForgetResult();
      Pop();
      break;
    case kDone:
      return;
  }
  for (;;) {
    switch (reader_->Next()) {
      case CallReader::kEnter:
        // The file may have changed since it was surveyed.
        if (reader_->definition() >= table_->variants.size()) return CloseSegment();
        variant_ = table_->variants[reader_->definition()];
        state_ = kEnter;
        break;
      case CallReader::kLeave:
        if (innermost() == nullptr) {
          ForgetResult();
          Pop();
          continue;
        }
        state_ = kLeave;
        break;
      case CallReader::kRaise:
        if (innermost() == nullptr) {
          Pop();
          continue;
        }
        state_ = kRaise;
        break;
      case CallReader::kDefine:
        definitions_->Define(*reader_, table_);
        continue;
      case CallReader::kTags:
        tags_ = definitions_->tags()->Intern(reader_->text());
        continue;
      case CallReader::kCode:
        definitions_->DefineCode(*reader_, table_);
        continue;
      case CallReader::kPlace:
        definitions_->DefinePlace(*reader_, table_);
        continue;
      case CallReader::kStack:
        stack_ = reader_->count() < table_->places.size() ? table_->places[reader_->count()] : kNoStack;
        continue;
      case CallReader::kFacts:
        facts_ = reader_->facts_of_call();
        continue;
      case CallReader::kNotes:
        notes_ = reader_->text();
        continue;
      case CallReader::kResult:
        values_ = reader_->result().values;
        result_notes_ = reader_->result().notes;
        continue;
      case CallReader::kEnd:
      case CallReader::kBroken:
        return CloseSegment();
      default:
        continue;
    }
    MoveTime(reader_->time());
    return;
  }
}

void ThreadReader::OpenSegment() {
  const LogSegment* const before = next_segment_ == 0 ? nullptr : &thread_->segments[next_segment_ - 1];
  const LogSegment& segment = thread_->segments[next_segment_++];
  table_ = definitions_->Acquire(segment);
  tags_ = kNoTags;
  stack_ = kNoStack;
  facts_ = RecordFacts();
  notes_.clear();
  ForgetResult();
  reader_.emplace(&definitions_->log().file(), definitions_->log().frames()[segment.frame].payload_offset(),
                  segment.begin, segment.end, definitions_->window_bytes());
  const uint64_t surviving = SurvivingCalls(depth_, CallsBetween(before, segment), segment);
  while (depth_ > surviving) {
    if (OpenCall& innermost = open_.back(); innermost.unknown > depth_ - surviving) {
      innermost.unknown -= depth_ - surviving;
      depth_ = surviving;
    } else {
      depth_ -= std::max<uint64_t>(innermost.unknown, 1);
      open_.pop_back();
    }
  }
  if (segment.open_calls > depth_) {
    open_.push_back({kUnknownCall, 0, 0, segment.open_calls - depth_});
    depth_ = segment.open_calls;
  }
}

// Leaves the segment, if one is open, and moves before the next.
void ThreadReader::CloseSegment() {
  if (reader_.has_value()) {
    reader_.reset();
    definitions_->Release(thread_->segments[next_segment_ - 1]);
    table_ = nullptr;
  }
  if (next_segment_ == thread_->segments.size()) {
    state_ = kDone;
    return;
  }
  state_ = kSegment;
  MoveTime(thread_->segments[next_segment_].time);
}

// Clocks of different cores may differ a little; then time stays where it is. A larger
// step back means a damaged frame without a checksum; follow it, so that the damage
// doesn't affect the times of all later records.
void ThreadReader::MoveTime(uint64_t units) {
  const int64_t time_ns = clock_->Nanoseconds(units);
  if (time_ns >= time_ns_ || time_ns < time_ns_ - kMaxSkewNs) time_ns_ = time_ns;
}

void ThreadReader::ForgetResult() {
  values_.clear();
  result_notes_.clear();
}

void ThreadReader::Pop() {
  if (open_.empty()) return;
  --depth_;
  if (open_.back().unknown > 1) {
    --open_.back().unknown;
  } else {
    open_.pop_back();
  }
}

}  // namespace torchtrace
