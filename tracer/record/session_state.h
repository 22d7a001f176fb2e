// What hooks and threads read of the session before every call; only the Recorder changes it.

#ifndef TORCHTRACE_TRACER_RECORD_SESSION_STATE_H_
#define TORCHTRACE_TRACER_RECORD_SESSION_STATE_H_

#include <atomic>
#include <cstdint>

#include "tracer/record/export.h"

namespace torchtrace {

class TORCHTRACE_EXPORT SessionState {
 public:
  // Changes with all that threads have to catch up with: a session, a pause, tags. 0: nothing is recorded. No other
  // number is used twice.
  static uint64_t epoch() { return epoch_.load(std::memory_order_relaxed); }
  // The number of the active session; 0: none.
  static uint64_t session() { return session_.load(std::memory_order_relaxed); }
  // Whether the session records what calls return.
  static bool wants_results() { return wants_results_.load(std::memory_order_relaxed); }

 private:
  friend class Recorder;
  static std::atomic<uint64_t> epoch_;
  static std::atomic<uint64_t> session_;
  static std::atomic<bool> wants_results_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_SESSION_STATE_H_
