#include "serialize/log/thread_reader.h"

#include <algorithm>
#include <memory>

namespace torchtrace {

LogDefinitions::Read* LogDefinitions::Acquire(const LogSegment& segment) {
  ++in_use_;
  std::unique_ptr<Read>& read = frames_[segment.frame].read;
  if (read == nullptr) read = std::make_unique<Read>();
  if (read->end < segment.begin) {
    CallReader reader = Reader(segment, read->end, segment.begin);
    for (auto kind = reader.Next(); kind <= CallReader::kLast; kind = reader.Next()) Add(kind, reader, read.get());
    read->end = segment.begin;
  }
  return read.get();
}

void LogDefinitions::Release(const LogSegment& segment) {
  const auto frame = frames_.find(segment.frame);
  uint64_t& end = frame->second.read->end;
  end = std::max<uint64_t>(end, segment.end);
  if (--frame->second.segments_left == 0) frames_.erase(frame);
  if (--in_use_ == 0) log_->file().Rest();
}

ThreadReader::ThreadReader(const std::vector<LogSegment>* segments, LogDefinitions* definitions, ThreadCalls* calls)
    : segments_(segments), definitions_(definitions), calls_(calls) {
  CloseSegment();
}

void ThreadReader::Advance() {
  if (state_ == kDone) return;
  if (state_ == kSegment) {
    const LogSegment& segment = (*segments_)[next_segment_++];
    frame_ = definitions_->Acquire(segment);
    reader_.emplace(definitions_->Reader(segment, segment.begin, segment.end));
    calls_->Begin(segment);
  } else {
    calls_->Apply();
  }
  for (;;) {
    const CallReader::Kind kind = reader_->Next();
    // The file may have changed since it was surveyed.
    if (kind > CallReader::kLast ||
        (kind == CallReader::kEnter && reader_->definition() >= frame_->definitions.variants().size())) {
      return CloseSegment();
    }
    definitions_->Add(kind, *reader_, frame_);
    if (!calls_->Take(kind, *reader_, calls_->clock().Nanoseconds(reader_->time()), frame_->definitions)) continue;
    state_ = kRecord;
    return;
  }
}

// Leaves the segment, if one is open, and moves before the next.
void ThreadReader::CloseSegment() {
  if (reader_.has_value()) {
    reader_.reset();
    definitions_->Release((*segments_)[next_segment_ - 1]);
    frame_ = nullptr;
  }
  if (next_segment_ == segments_->size()) {
    state_ = kDone;
    return;
  }
  state_ = kSegment;
  calls_->MoveTime(calls_->clock().Nanoseconds((*segments_)[next_segment_].time));
}

}  // namespace torchtrace
