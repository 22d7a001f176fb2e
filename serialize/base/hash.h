// The hash of the log's checksums and of interned descriptions: XXH3_64.

#ifndef TORCHTRACE_SERIALIZE_BASE_HASH_H_
#define TORCHTRACE_SERIALIZE_BASE_HASH_H_

#include <cstddef>
#include <cstdint>

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace torchtrace {

inline uint64_t Hash64(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

// The same hash of bytes that come in pieces.
class StreamingHash {
 public:
  StreamingHash() { XXH3_64bits_reset(&state_); }
  void Update(const void* data, size_t bytes) { XXH3_64bits_update(&state_, data, bytes); }
  uint64_t Digest() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_HASH_H_
