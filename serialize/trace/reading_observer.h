// A ReadingObserver is told how far the reading of a trace has come: for a person who
// waits. Each pass over a trace begins anew.

#ifndef TORCHTRACE_SERIALIZE_TRACE_READING_OBSERVER_H_
#define TORCHTRACE_SERIALIZE_TRACE_READING_OBSERVER_H_

#include <cstdint>

namespace torchtrace {

class ReadingObserver {
 public:
  enum Unit : uint8_t { kBytes, kCalls };

  virtual ~ReadingObserver() = default;

  // Now and then, from the thread that reads. `total` is 0 when it isn't known.
  virtual void OnRead(Unit unit, uint64_t done, uint64_t total) = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_READING_OBSERVER_H_
