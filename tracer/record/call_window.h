// Which of a process's calls are recorded, whatever they are: `run --skip, --first, --sample, --max-calls, --duration`.

#ifndef TORCHTRACE_TRACER_RECORD_CALL_WINDOW_H_
#define TORCHTRACE_TRACER_RECORD_CALL_WINDOW_H_

#include <atomic>
#include <cstdint>

#include "tracer/record/recording_options.h"

namespace torchtrace {

class CallWindow {
 public:
  explicit CallWindow(const RecordingOptions& options);

  // Whether the options leave out any call.
  static bool Limits(const RecordingOptions& options);

  // Whether a call is recorded. Asked once for each that passes the filter of names, by any thread. `sightings`: the
  // calls of its configuration that its thread has recorded. `thread` and `call` number the thread, and the call on it.
  bool Admits(uint64_t sightings, uint64_t thread, uint64_t call);
  // Whether all later calls are left out.
  bool over() const { return over_.load(std::memory_order_relaxed); }

  // In a forked process, whose window is its own.
  void Begin();

 private:
  const uint64_t skip_;
  const uint64_t most_sightings_;  // 0: no limit
  const uint64_t most_calls_;      // 0: no limit
  const uint64_t duration_ns_;     // 0: no limit
  const uint64_t sampled_;         // of 2^64 calls
  std::atomic<uint64_t> skipped_{0};
  std::atomic<uint64_t> recorded_{0};
  std::atomic<uint64_t> end_ns_{0};  // CLOCK_MONOTONIC; 0: no call was recorded yet
  std::atomic<bool> over_{false};
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_CALL_WINDOW_H_
