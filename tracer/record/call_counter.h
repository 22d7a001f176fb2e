// How often this process called each configuration since its calls are no longer listed: `run --max-size`.

#ifndef TORCHTRACE_TRACER_RECORD_CALL_COUNTER_H_
#define TORCHTRACE_TRACER_RECORD_CALL_COUNTER_H_

#include <cstdint>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "serialize/base/bytes.h"
#include "serialize/log/call_counts.h"

namespace torchtrace {

// One count for each configuration, for all threads. Threads change counts that they know without a lock, and share the
// counter, so that its frames stay mapped as long as they may. Everything else needs the recorder's lock.
class CallCounter {
 public:
  // Null: the configuration (config.h: identity and facets) has no count yet.
  CallCount* Find(std::string_view config) const {
    const auto known = counts_.find(config);
    return known == counts_.end() ? nullptr : known->second;
  }
  bool Fits(std::string_view config) const { return writer_.Fits(config); }
  void Continue(Frame frame) { writer_.Continue(frame); }
  // With one call. It must fit.
  CallCount* Add(std::string_view config, uint32_t identity_bytes) {
    std::string_view stored;
    CallCount* const count = writer_.Add(config, identity_bytes, 1, &stored);
    counts_.emplace(stored, count);
    return count;
  }
  uint64_t calls() const { return writer_.calls(); }
  // In a forked process, which counts its own calls.
  void Forget() {
    counts_.clear();
    writer_.Forget();
  }

 private:
  struct Hash {
    size_t operator()(std::string_view bytes) const { return Hash64(bytes.data(), bytes.size()); }
  };
  CountWriter writer_;
  absl::flat_hash_map<std::string_view, CallCount*, Hash> counts_;  // by bytes in the frames
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_CALL_COUNTER_H_
