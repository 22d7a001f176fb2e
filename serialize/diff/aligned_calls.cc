#include "serialize/diff/aligned_calls.h"

#include <system_error>

#include "absl/strings/str_cat.h"
#include "serialize/base/text.h"
#include "serialize/diff/config_diff.h"

namespace torchtrace {
namespace {

constexpr size_t kStepsAtOnce = 256;
constexpr size_t kMaxReady = 16;

}  // namespace

SequenceCursor::SequenceCursor(const std::vector<AlignedSequence>& sequences, bool of_a,
                               const std::vector<uint32_t>& symbols)
    : sequences_(sequences), of_a_(of_a), symbols_(symbols) {
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    const std::optional<ThreadId>& thread = of_a ? sequences[i].a : sequences[i].b;
    if (sequences[i].level == CallSequence::kAllLevels) levels_together_ = true;
    if (thread.has_value()) index_[{*thread, sequences[i].level}] = i;
  }
}

SequenceCursor::Place SequenceCursor::Next(const CallRecord& call) {
  Place place;
  if (SymbolOf(call, symbols_) == CommonConfigs::kLeftOut) return place;
  const int level = levels_together_ ? CallSequence::kAllLevels : call.level;
  Progress& progress = OfLevel(level, &threads_.Of(call));
  if (!progress.known) {
    progress.known = true;
    const auto found = index_.find({{call.process, call.thread}, level});
    if (found != index_.end()) progress.sequence = found->second;
  }
  // A file that has grown has calls that were not aligned.
  if (progress.sequence == Place::kNone) return place;
  const RunList& runs = sequences_[progress.sequence].runs;
  const RunKind skipped = of_a_ ? RunKind::kAdded : RunKind::kRemoved;
  while (progress.run < runs.size() &&
         (runs[progress.run].kind == skipped || progress.in_run == runs[progress.run].count)) {
    ++progress.run;
    progress.in_run = 0;
  }
  if (progress.run == runs.size()) return place;
  place.sequence = progress.sequence;
  place.kind = runs[progress.run].kind;
  ++progress.in_run;
  if (place.in_both()) place.ordinal = progress.ordinal++;
  return place;
}

PartnerCalls::PartnerCalls(Trace* trace, bool has_later, SequenceCursor cursor,
                           std::function<void(const WholeCall&)> alone, uint64_t max_waiting_bytes)
    : trace_(trace),
      has_later_(has_later),
      later_notes_(trace),
      cursor_(std::move(cursor)),
      alone_(std::move(alone)),
      max_waiting_bytes_(max_waiting_bytes) {
  try {
    thread_ = std::thread([this] { Read(); });
  } catch (const std::system_error&) {
    bounded_ = false;
    Read();
  }
}

PartnerCalls::~PartnerCalls() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PartnerCalls::Read() {
  struct Open {
    uint32_t depth;
    uint64_t call;
    SequenceCursor::Place place;
    WholeCall alone;  // of a call that only this trace has
  };
  ByThread<std::vector<Open>> threads;
  Steps steps;
  const auto finished = absl::CancelledError();
  const auto push = [&]() -> absl::Status {
    if (steps.size() < kStepsAtOnce) return absl::OkStatus();
    return Push(&steps) ? absl::OkStatus() : finished;
  };
  const auto take = [&](const CallRecord& record) -> absl::Status {
    std::vector<Open>& open = threads.Of(record);
    if (record.kind == CallRecord::kEnter) {
      // Calls as deep as this one have ended, though their ends are lost.
      for (; !open.empty() && open.back().depth >= record.depth; open.pop_back()) {
        if (!open.back().place.in_both()) continue;
        steps.push_back({open.back().place, {}});
        steps.back().call.ended = true;
      }
      const SequenceCursor::Place place = cursor_.Next(record);
      if (place.sequence == SequenceCursor::Place::kNone) return absl::OkStatus();
      WholeCall call;
      call.call = record.call;
      call.config = record.config;
      call.stack = record.stack;
      call.thread = {record.process, record.thread};
      call.notes = record.notes;
      open.push_back({record.depth, record.call, place, {}});
      if (!place.in_both()) {
        open.back().alone = std::move(call);
        return absl::OkStatus();
      }
      steps.push_back({place, std::move(call)});
      return push();
    }
    while (!open.empty() && open.back().depth > record.depth) open.pop_back();
    if (open.empty() || open.back().call != record.call) return absl::OkStatus();
    Step step = {open.back().place, std::move(open.back().alone)};
    open.pop_back();
    step.call.ended = true;
    step.call.values = record.result.values;
    step.call.result_notes = record.result.notes;
    step.call.written = record.result.written;
    steps.push_back(std::move(step));
    return push();
  };
  absl::Status read = has_later_ ? later_notes_.Read(take) : trace_->Read(take);
  if (read == finished) read = absl::OkStatus();
  Push(&steps);
  const std::lock_guard<std::mutex> lock(mutex_);
  read_ = std::move(read);
  done_ = true;
  changed_.notify_all();
}

uint64_t PartnerCalls::too_late() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return too_late_;
}

bool PartnerCalls::Push(Steps* steps) {
  std::unique_lock<std::mutex> lock(mutex_);
  too_late_ = later_notes_.all_too_late();
  changed_.wait(lock, [this] { return !bounded_ || cancelled_ || ready_.size() < kMaxReady; });
  if (cancelled_) return false;
  ready_.push_back(std::move(*steps));
  steps->clear();
  changed_.notify_all();
  return true;
}

bool PartnerCalls::Take() {
  std::vector<Steps> taken;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return done_ || !ready_.empty(); });
    if (ready_.empty()) {
      status_ = read_;
      return false;
    }
    taken.swap(ready_);
  }
  changed_.notify_all();
  for (Steps& steps : taken) {
    for (Step& step : steps) {
      ++order_;
      if (!step.place.in_both()) {
        step.call.end_order = order_;
        waiting_bytes_ += step.call.bytes();
        waiting_alone_.push_back(std::move(step.call));
        continue;
      }
      const Key key(step.place.sequence, step.place.ordinal);
      std::unique_ptr<WholeCall>& waiting = waiting_[key];
      if (!step.call.ended) {
        waiting = std::make_unique<WholeCall>(std::move(step.call));
        waiting->entry_order = order_;
        waiting_bytes_ += waiting->bytes();
        continue;
      }
      // Forgotten before its end.
      if (waiting == nullptr) {
        waiting_.erase(key);
        continue;
      }
      waiting_bytes_ -= waiting->bytes();
      waiting->ended = true;
      waiting->end_order = order_;
      waiting->values = std::move(step.call.values);
      waiting->result_notes = std::move(step.call.result_notes);
      waiting->written = std::move(step.call.written);
      waiting_bytes_ += waiting->bytes();
    }
  }
  if (waiting_bytes_ > max_waiting_bytes_) {
    status_ = absl::ResourceExhaustedError(absl::StrCat(
        "the threads of A and B make their calls in orders that differ so much that ", FormatSize(max_waiting_bytes_),
        " of calls wait for their partners: compare one thread or rank ", "(--thread, --rank)"));
    return false;
  }
  return true;
}

const WholeCall* PartnerCalls::Find(const SequenceCursor::Place& place, bool ended) {
  const Key key(place.sequence, place.ordinal);
  while (true) {
    const auto found = waiting_.find(key);
    if (found != waiting_.end() && (!ended || found->second->ended)) {
      PassAlone(ended ? found->second->end_order : found->second->entry_order);
      return found->second.get();
    }
    if (!status_.ok() || !Take()) return nullptr;
  }
}

void PartnerCalls::Forget(const SequenceCursor::Place& place) {
  const auto found = waiting_.find({place.sequence, place.ordinal});
  if (found == waiting_.end()) return;
  waiting_bytes_ -= found->second->bytes();
  waiting_.erase(found);
}

void PartnerCalls::PassAlone(uint64_t order) {
  for (; !waiting_alone_.empty() && waiting_alone_.front().end_order < order; waiting_alone_.pop_front()) {
    waiting_bytes_ -= waiting_alone_.front().bytes();
    alone_(waiting_alone_.front());
  }
}

}  // namespace torchtrace
