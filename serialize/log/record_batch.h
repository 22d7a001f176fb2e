// Records on their way from a thread that decodes them to one that uses them.

#ifndef TORCHTRACE_SERIALIZE_LOG_RECORD_BATCH_H_
#define TORCHTRACE_SERIALIZE_LOG_RECORD_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "serialize/log/call_reader.h"

namespace torchtrace {

// Records of one frame, in order.
class RecordBatch {
 public:
  // Large enough to make the exchange between threads cheap, small enough for a processor's cache.
  static constexpr size_t kMaxRecords = 16 << 10;
  static constexpr size_t kMaxBodyBytes = 256 << 10;

  bool full() const { return count_ == kMaxRecords || bodies_.size() >= kMaxBodyBytes; }

  // Call it unless it is full.
  [[gnu::always_inline]] void Add(LogRecord::Kind kind, const LogRecord& record, int64_t time_ns) {
    Packed& packed = records_[count_++];
    packed.time_ns = time_ns;
    packed.kind = kind;
    packed.number = static_cast<uint32_t>(record.definition());
    if (kind > LogRecord::kLeave) [[unlikely]] {
      packed.number = static_cast<uint32_t>(record.body().size());
      bodies_ += record.body();
    }
  }

  // Calls `visit(kind, record, time_ns)`. The record's views are valid during the call; it has no time().
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    LogRecord record;
    const char* body = bodies_.data();
    for (size_t i = 0; i < count_; ++i) {
      const Packed& packed = records_[i];
      if (packed.kind > LogRecord::kLeave) [[unlikely]] {
        record.Parse(packed.kind, std::string_view(body, packed.number));
        body += packed.number;
      } else {
        record.SetDefinition(packed.number);
      }
      visit(packed.kind, record, packed.time_ns);
    }
  }

 private:
  struct Packed {
    int64_t time_ns;
    uint32_t number;  // the definition of an entry, or the bytes of the body; a frame has less than 4 GiB
    LogRecord::Kind kind;
  };

  std::unique_ptr<Packed[]> records_ = std::make_unique_for_overwrite<Packed[]>(kMaxRecords);
  size_t count_ = 0;
  std::string bodies_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_RECORD_BATCH_H_
