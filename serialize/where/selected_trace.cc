#include "serialize/where/selected_trace.h"

#include <utility>

namespace torchtrace {

absl::Status SelectedTrace::Prepare() {
  if (prepared_) return absl::OkStatus();
  const LaterNotesShown hidden(trace_.get(), false);
  const MemoryShown hidden_too(trace_.get(), false);
  const absl::Status prepared = calls_.Prepare();
  prepared_ = prepared.ok();
  return prepared;
}

void SelectedTrace::SetShown(RecordsShown shown) {
  Trace::SetShown(shown);
  later_shown_.reset();
  memory_shown_.reset();
  if (shown.later) later_shown_.emplace(trace_.get());
  if (shown.memory) memory_shown_.emplace(trace_.get());
}

Trace::Visitor SelectedTrace::Selecting(const Visitor& visitor) {
  return
      [this, &visitor](const CallRecord& record) { return calls_.Wants(record) ? visitor(record) : absl::OkStatus(); };
}

absl::Status SelectedTrace::Read(const Visitor& visitor) {
  if (absl::Status s = Prepare(); !s.ok()) return s;
  return trace_->Read(Selecting(visitor));
}

absl::Status SelectedTrace::ReadCounted(const Visitor& visitor) {
  if (absl::Status s = Prepare(); !s.ok()) return s;
  return ReadFor(selection_, trace_.get(), Selecting(visitor));
}

absl::Status SelectedTrace::ReadCounts(const Visitor& visitor) {
  if (selection_.TellsEqualCallsApart()) return absl::OkStatus();
  if (absl::Status s = Prepare(); !s.ok()) return s;
  return trace_->ReadCounts(Selecting(visitor));
}

absl::StatusOr<std::vector<uint64_t>> SelectedTrace::Count() {
  if (counts_.has_value()) return *counts_;
  // Fills in the configurations, and gives upper limits for the numbers of calls.
  absl::StatusOr<std::vector<uint64_t>> counts = trace_->Count();
  if (!counts.ok()) return counts;
  std::vector<uint64_t> seen(counts->size());
  const absl::Status read = ReadCounted([&seen](const CallRecord& record) {
    if (record.kind == CallRecord::kEnter) seen[record.variant] += record.count;
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  counts_ = std::move(seen);
  return *counts_;
}

}  // namespace torchtrace
