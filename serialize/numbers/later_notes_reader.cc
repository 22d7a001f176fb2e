#include "serialize/numbers/later_notes_reader.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "serialize/model/tensor_notes.h"

namespace torchtrace {
namespace {

// The texts that a record refers to.
template <typename Record, typename Visit>
void ForTexts(Record* record, const Visit& visit) {
  visit(&record->notes);
  visit(&record->result.values);
  visit(&record->result.notes);
  visit(&record->result.written);
  visit(&record->exception);
}

}  // namespace

absl::Status LaterNotesReader::Read(const Trace::Visitor& visitor) {
  const LaterNotesShown shown(trace_);
  const absl::Status read = trace_->Read([&](const CallRecord& record) -> absl::Status {
    if (record.kind == CallRecord::kLater) {
      AddLater(record);
    } else {
      Add(record);
    }
    while (!waiting_.empty()) {
      const Waiting& first = waiting_.front();
      const bool may_get_notes = first.later != nullptr && first.thread->entered - first.later->number < kRecentCalls;
      if (may_get_notes && waiting_bytes_ <= max_waiting_bytes_) break;
      if (absl::Status s = VisitFirst(visitor); !s.ok()) return s;
    }
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  while (!waiting_.empty()) {
    if (absl::Status s = VisitFirst(visitor); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status LaterNotesReader::ReadOnceOrTwice(const std::function<absl::Status()>& begin,
                                               const Trace::Visitor& visitor) {
  if (absl::Status s = begin(); !s.ok()) return s;
  {
    const LaterNotesShown shown(trace_);
    const absl::Status read = trace_->Read([&](const CallRecord& record) -> absl::Status {
      if (record.kind != CallRecord::kLater) return visitor(record);
      found_later_ = true;
      return absl::CancelledError();
    });
    if (!found_later_) return read;
  }
  if (absl::Status s = begin(); !s.ok()) return s;
  return Read(visitor);
}

uint64_t LaterNotesReader::all_too_late() const {
  return std::accumulate(too_late_.begin(), too_late_.end(), uint64_t{0});
}

void LaterNotesReader::Add(const CallRecord& record) {
  Thread& thread = threads_[{record.process, record.thread}];
  Waiting& waiting = waiting_.emplace_back();
  waiting.record = record;
  waiting.thread = &thread;
  if (record.kind == CallRecord::kEnter) {
    waiting.later = std::make_shared<Later>();
    waiting.later->number = ++thread.entered;
    thread.recent.Add(record.call, waiting.later);
  } else if (const std::shared_ptr<Later>* const later = thread.recent.Find(record.call)) {
    waiting.later = *later;
    waiting.later->ended = true;
    waiting_bytes_ += waiting.later->result.size() + waiting.later->written.size();
  }
  size_t bytes = 0;
  ForTexts(&record, [&](const std::string_view* text) { bytes += text->size(); });
  waiting.texts.reserve(bytes);
  ForTexts(&record, [&](const std::string_view* text) { waiting.texts.append(*text); });
  waiting_bytes_ += waiting.bytes();
}

void LaterNotesReader::AddLater(const CallRecord& record) {
  const std::shared_ptr<Later>* const found = threads_[{record.process, record.thread}].recent.Find(record.call);
  Later* const later = found == nullptr ? nullptr : found->get();
  const auto add = [&](std::string_view notes, std::string Later::* to, bool Later::* visited) {
    if (notes.empty()) return;
    if (later == nullptr || later->*visited) {
      if (record.process >= too_late_.size()) too_late_.resize(record.process + size_t{1});
      too_late_[record.process] += ReadTensorNotes(notes).size();
      return;
    }
    (later->*to).append(notes);
    // Those on the result of a call that is open belong to no record that waits.
    if (to == &Later::arguments || later->ended) waiting_bytes_ += notes.size();
  };
  add(record.notes, &Later::arguments, &Later::entry_visited);
  add(record.result.notes, &Later::result, &Later::end_visited);
  add(record.result.written, &Later::written, &Later::end_visited);
}

absl::Status LaterNotesReader::VisitFirst(const Trace::Visitor& visitor) {
  Waiting waiting = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_bytes_ -= waiting.bytes();
  std::string_view rest = waiting.texts;
  ForTexts(&waiting.record, [&rest](std::string_view* text) {
    *text = rest.substr(0, text->size());
    rest.remove_prefix(text->size());
  });
  if (waiting.later == nullptr) return visitor(waiting.record);
  const bool entry = waiting.record.kind == CallRecord::kEnter;
  (entry ? waiting.later->entry_visited : waiting.later->end_visited) = true;
  std::string notes, written;  // of both
  const auto take = [this](std::string* later, std::string_view* own, std::string* both) {
    if (later->empty()) return;
    waiting_bytes_ -= later->size();
    *both = WithLaterNotes(*own, *later);
    *own = *both;
    std::string().swap(*later);
  };
  if (entry) {
    take(&waiting.later->arguments, &waiting.record.notes, &notes);
  } else {
    take(&waiting.later->result, &waiting.record.result.notes, &notes);
    take(&waiting.later->written, &waiting.record.result.written, &written);
  }
  return visitor(waiting.record);
}

std::string WithLaterNotes(std::string_view notes, std::string_view later) {
  std::vector<TensorNote> both = ReadTensorNotes(notes);
  const size_t own = both.size();
  for (const TensorNote& note : ReadTensorNotes(later)) {
    const auto at =
        std::lower_bound(both.begin(), both.begin() + static_cast<ptrdiff_t>(own), note.position,
                         [](const TensorNote& other, uint64_t position) { return other.position < position; });
    if (at == both.begin() + static_cast<ptrdiff_t>(own) || at->position != note.position) {
      both.push_back(note);
    } else if (!at->numbers.has_value()) {
      at->numbers = note.numbers;
    }
  }
  std::stable_sort(both.begin(), both.end(),
                   [](const TensorNote& a, const TensorNote& b) { return a.position < b.position; });
  std::string bytes;
  for (const TensorNote& note : both) AppendTensorNote(note, &bytes);
  return bytes;
}

}  // namespace torchtrace
