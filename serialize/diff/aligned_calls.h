// The calls of two traces side by side, in one reading of each: while A is read, the calls of B that belong to A's.

#ifndef TORCHTRACE_SERIALIZE_DIFF_ALIGNED_CALLS_H_
#define TORCHTRACE_SERIALIZE_DIFF_ALIGNED_CALLS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "serialize/diff/by_thread.h"
#include "serialize/diff/call_sequences.h"
#include "serialize/diff/sequence_diff.h"
#include "serialize/numbers/later_notes_reader.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Sequences of both traces that belong together, and how their calls are aligned.
struct AlignedSequence {
  std::optional<ThreadId> a;  // nullopt: only the other trace has it
  std::optional<ThreadId> b;
  int level = 0;  // CallSequence::kAllLevels
  RunList runs;
};

// Says of each call of one trace, in order, where it is in the alignment.
class SequenceCursor {
 public:
  struct Place {
    static constexpr uint32_t kNone = UINT32_MAX;
    uint32_t sequence = kNone;  // kNone: the call is in no sequence
    // kSame, kChanged: the other trace has the call, too.
    RunKind kind = RunKind::kSame;
    uint64_t ordinal = 0;  // of those calls of the sequence, the same in both traces

    bool in_both() const { return sequence != kNone && (kind == RunKind::kSame || kind == RunKind::kChanged); }
  };

  // The arguments must outlive it.
  SequenceCursor(const std::vector<AlignedSequence>& sequences, bool of_a, const std::vector<uint32_t>& symbols);

  // Call it at each entry.
  Place Next(const CallRecord& call);

 private:
  struct Progress {
    uint32_t sequence = Place::kNone;
    bool known = false;
    size_t run = 0;
    uint32_t in_run = 0;  // calls of it that were passed
    uint64_t ordinal = 0;
  };

  const std::vector<AlignedSequence>& sequences_;
  const bool of_a_;
  const std::vector<uint32_t>& symbols_;
  bool levels_together_ = false;
  std::map<std::pair<ThreadId, int>, uint32_t> index_;
  ByThread<std::vector<std::pair<int, Progress>>> threads_;
};

// A call with all that its records say of tensors.
struct WholeCall {
  uint64_t call = kNoCall;
  ConfigId config = kLostId;
  StackId stack = kNoStack;
  ThreadId thread;
  bool ended = false;
  uint64_t entry_order = 0;  // among all entries and ends of calls
  uint64_t end_order = 0;
  std::string notes;  // on its arguments
  // CallResult:
  std::string values;
  std::string result_notes;
  std::string written;

  CallResult result() const { return {values, result_notes, written}; }
  size_t bytes() const {
    return sizeof(WholeCall) + notes.size() + values.size() + result_notes.size() + written.size();
  }
};

// Reads B on a thread of its own, as far as its calls are asked for. Holds calls that were read and not yet asked for:
// memory grows with how much further B's threads, and its processes, are ahead of each other than A's. Use it on one
// thread.
class PartnerCalls {
 public:
  static constexpr uint64_t kMaxWaitingBytes = uint64_t{2} << 30;

  // `alone` gets the calls that only B has, in the order of their ends, before Entered or Ended return what comes after
  // that. `trace` was read before: the tables of its configs don't grow. `has_later`: it has notes that came later than
  // their calls. All arguments must outlive it.
  PartnerCalls(Trace* trace, bool has_later, SequenceCursor cursor, std::function<void(const WholeCall&)> alone,
               uint64_t max_waiting_bytes = kMaxWaitingBytes);
  ~PartnerCalls();
  PartnerCalls(const PartnerCalls&) = delete;
  PartnerCalls& operator=(const PartnerCalls&) = delete;

  // The call of that place, with its arguments, or with its end. Null: the trace has none, or no end of it; or see
  // status(). Valid until Forget.
  const WholeCall* Entered(const SequenceCursor::Place& place) { return Find(place, false); }
  const WholeCall* Ended(const SequenceCursor::Place& place) { return Find(place, true); }
  void Forget(const SequenceCursor::Place& place);

  // Of the reading; ResourceExhausted if too many calls wait.
  const absl::Status& status() const { return status_; }
  // Tensors whose notes came when their calls could wait no longer, as far as B was read.
  uint64_t too_late();

 private:
  using Key = std::pair<uint32_t, uint64_t>;  // sequence and ordinal
  // A call's entry or its end; of a call that only B has, both at once.
  struct Step {
    SequenceCursor::Place place;
    WholeCall call;
  };
  using Steps = std::vector<Step>;

  // On the other thread.
  void Read();
  bool Push(Steps* steps);

  const WholeCall* Find(const SequenceCursor::Place& place, bool ended);
  // Takes more steps in; false if there are none.
  bool Take();
  void PassAlone(uint64_t order);

  Trace* const trace_;
  const bool has_later_;
  LaterNotesReader later_notes_;
  SequenceCursor cursor_;
  const std::function<void(const WholeCall&)> alone_;
  const uint64_t max_waiting_bytes_;
  absl::flat_hash_map<Key, std::unique_ptr<WholeCall>> waiting_;
  std::deque<WholeCall> waiting_alone_;
  uint64_t waiting_bytes_ = 0;  // of both
  uint64_t order_ = 0;
  absl::Status status_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Steps> ready_;  // the first one first
  bool bounded_ = true;       // false: there is no second thread, and all is read at once
  bool cancelled_ = false;
  bool done_ = false;
  uint64_t too_late_ = 0;
  absl::Status read_;
  std::thread thread_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_ALIGNED_CALLS_H_
