// Reads calls with the notes that came later than they did (CallRecord::kLater), as if they had not.

#ifndef TORCHTRACE_SERIALIZE_NUMBERS_LATER_NOTES_READER_H_
#define TORCHTRACE_SERIALIZE_NUMBERS_LATER_NOTES_READER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "serialize/trace/recent_calls.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// The records of a trace in its order. Each waits until no more notes of its call can come, because its thread has
// entered kRecentCalls others; all that follow it wait, too. The first ones don't wait where more than
// `max_waiting_bytes` of them would. Beyond that, memory grows with threads.
class LaterNotesReader {
 public:
  static constexpr size_t kMaxWaitingBytes = size_t{512} << 20;

  explicit LaterNotesReader(Trace* trace, size_t max_waiting_bytes = kMaxWaitingBytes)
      : trace_(trace), max_waiting_bytes_(max_waiting_bytes) {}

  // As Trace::Read, without records of kind kLater: their notes are among those of the call's entry and its end.
  // Call it once.
  absl::Status Read(const Trace::Visitor& visitor);

  // The same for a trace of which it isn't known whether it has such notes: reads it without waiting until some come,
  // then again from its beginning. Calls `begin` before each reading: it forgets what the visitor has seen.
  absl::Status ReadOnceOrTwice(const std::function<absl::Status()>& begin, const Trace::Visitor& visitor);
  // Whether it has.
  bool found_later() const { return found_later_; }

  // By process: tensors whose notes came when their call could wait no longer.
  const std::vector<uint64_t>& too_late() const { return too_late_; }
  uint64_t all_too_late() const;

 private:
  struct Later {
    uint64_t number = 0;  // of the call on its thread
    bool entry_visited = false, ended = false, end_visited = false;
    std::string arguments, result, written;  // notes
  };
  struct Thread {
    uint64_t entered = 0;
    RecentCalls<std::shared_ptr<Later>> recent;
  };
  // A record that waits.
  struct Waiting {
    CallRecord record;
    const Thread* thread = nullptr;
    std::shared_ptr<Later> later;  // null: nothing can come
    std::string texts;             // that the record refers to, one after the other

    size_t bytes() const { return sizeof(Waiting) + sizeof(Later) + texts.size(); }
  };

  void Add(const CallRecord& record);
  void AddLater(const CallRecord& record);
  absl::Status VisitFirst(const Trace::Visitor& visitor);

  Trace* const trace_;
  const size_t max_waiting_bytes_;
  std::map<std::pair<uint32_t, uint32_t>, Thread> threads_;
  std::deque<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  bool found_later_ = false;
  std::vector<uint64_t> too_late_;
};

// `notes` with those that came later: a tensor's numbers are added to its note.
std::string WithLaterNotes(std::string_view notes, std::string_view later);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_NUMBERS_LATER_NOTES_READER_H_
