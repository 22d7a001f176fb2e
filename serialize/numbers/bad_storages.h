// Where NaN and infinities lie in memory, as far as a trace shows: in which storages and in which parts of them.

#ifndef TORCHTRACE_SERIALIZE_NUMBERS_BAD_STORAGES_H_
#define TORCHTRACE_SERIALIZE_NUMBERS_BAD_STORAGES_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"

namespace torchtrace {

// A set of these.
inline constexpr uint8_t kHoldsNan = 1;
inline constexpr uint8_t kHoldsInfinity = 2;

inline uint8_t HeldBy(const TensorNote::Numbers& numbers) {
  const bool infinite = numbers.positive_infinities != 0 || numbers.negative_infinities != 0;
  return static_cast<uint8_t>((numbers.nans != 0 ? kHoldsNan : 0) | (infinite ? kHoldsInfinity : 0));
}

// Bytes of a storage. All of it: what isn't known better.
struct StorageBytes {
  uint64_t begin = 0;
  uint64_t end = UINT64_MAX;
  bool dense = false;  // each byte belongs to the tensor
};

// From the first to the last element of the tensor; null: unknown.
StorageBytes BytesOfTensor(const Value* tensor, const TensorNote::Identity& identity);

// Remembers the storages that hold something bad; those that don't cost nothing. Memory is bounded: keeps the last
// `most` used ones, and at most as many before them.
class BadStorages {
 public:
  explicit BadStorages(size_t most = size_t{1} << 19) : most_(most) {}

  bool Knows(uint64_t storage) { return Find(storage) != nullptr; }
  // What any of the bytes may hold.
  uint8_t Held(uint64_t storage, const StorageBytes& bytes);
  // What the bytes hold now, or nothing.
  void Set(uint64_t storage, const StorageBytes& bytes, uint8_t held);

  // Some were dropped for memory.
  bool forgot() const { return forgot_; }

 private:
  struct Part {
    StorageBytes bytes;
    uint8_t held = 0;
  };
  using Parts = std::vector<Part>;
  static constexpr size_t kMostParts = 32;

  Parts* Find(uint64_t storage);
  static void Clear(const StorageBytes& bytes, Parts* parts);

  size_t most_;
  absl::flat_hash_map<uint64_t, Parts> last_, before_;
  bool forgot_ = false;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_NUMBERS_BAD_STORAGES_H_
