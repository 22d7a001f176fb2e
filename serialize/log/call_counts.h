// Frames of counts: how often a process called each configuration after its calls were no longer listed (`run
// --max-size`). A count changes in place, in mapped memory, so a process that is killed loses none.

#ifndef TORCHTRACE_SERIALIZE_LOG_CALL_COUNTS_H_
#define TORCHTRACE_SERIALIZE_LOG_CALL_COUNTS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/log/log_format.h"
#include "serialize/log/log_writer.h"

namespace torchtrace {

using CallCount = std::atomic<uint64_t>;

// Writes counts into frames, which it owns. Not thread-safe, but for the counts that it returns.
class CountWriter {
 public:
  CountWriter() = default;
  CountWriter(const CountWriter&) = delete;
  CountWriter& operator=(const CountWriter&) = delete;
  // Closes the frames: nobody may change a count any more.
  ~CountWriter();

  // Bytes of a frame that a configuration takes.
  static uint64_t BytesOf(std::string_view config);
  bool Fits(std::string_view config) const;
  // Goes on in an empty frame of type kCounts.
  void Continue(Frame frame);
  // Adds a configuration (config.h), which must fit, with `calls`, at least 1. The count is valid while the writer
  // lives; so is `*stored`, its bytes in the frame.
  CallCount* Add(std::string_view config, uint32_t identity_bytes, uint64_t calls, std::string_view* stored);
  // Of all configurations.
  uint64_t calls() const;
  // In a forked process, where the frames are not mapped.
  void Forget() { frames_.clear(); }

 private:
  struct Written {
    Frame frame;
    uint32_t bytes;  // of its payload
    uint64_t calls() const;
  };
  std::vector<Written> frames_;  // counts are added to the last one
};

// Appends a count as it is in a frame's payload.
void AppendCount(std::string_view identity, std::string_view facets, uint64_t calls, std::string* payload);

// Calls `visit(identity, facets, calls)` for each whole count in a frame's payload. Returns the bytes that they take.
using CountVisitor = std::function<void(std::string_view identity, std::string_view facets, uint64_t calls)>;
uint64_t VisitCounts(std::string_view payload, const CountVisitor& visit);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_CALL_COUNTS_H_
