// Bytes in memory: a buffer that grows, numbers of variable length, hashes.

#ifndef TORCHTRACE_SERIALIZE_BASE_BYTES_H_
#define TORCHTRACE_SERIALIZE_BASE_BYTES_H_

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace torchtrace {

// A byte buffer for hooks, which fill it at each call. Has what the writers here and in value.h need of std::string,
// but every step is inline. Owns its memory; clear() keeps it.
class ByteBuffer {
 public:
  ByteBuffer() = default;
  ByteBuffer(const ByteBuffer&) = delete;
  ByteBuffer& operator=(const ByteBuffer&) = delete;

  const char* data() const { return memory_.get(); }
  size_t size() const { return static_cast<size_t>(at_ - memory_.get()); }
  std::string_view view() const { return {data(), size()}; }
  char& operator[](size_t i) { return memory_[i]; }

  void clear() { at_ = memory_.get(); }
  // Only shrinks.
  void resize(size_t bytes) { at_ = memory_.get() + bytes; }

  void push_back(char byte) {
    MakeRoom(1);
    *at_++ = byte;
  }
  void append(const char* bytes, size_t count) {
    MakeRoom(count);
    if (count != 0) std::memcpy(at_, bytes, count);
    at_ += count;
  }
  void append(std::string_view bytes) { append(bytes.data(), bytes.size()); }
  // Appends the first `count` of `bytes`: a copy of fixed size needs no call.
  template <size_t N>
  void append(const std::array<char, N>& bytes, size_t count) {
    MakeRoom(N);
    std::memcpy(at_, bytes.data(), N);
    at_ += count;
  }

 private:
  void MakeRoom(size_t bytes) {
    if (static_cast<size_t>(end_ - at_) < bytes) [[unlikely]] {
      Grow(bytes);
    }
  }
  [[gnu::noinline, gnu::cold]] void Grow(size_t bytes) {
    constexpr size_t kFirstBytes = 1024;
    const size_t used = size();
    const size_t capacity = std::max(used + bytes, std::max(kFirstBytes, 2 * used));
    auto grown = std::make_unique_for_overwrite<char[]>(capacity);
    if (used != 0) std::memcpy(grown.get(), memory_.get(), used);
    memory_ = std::move(grown);
    at_ = memory_.get() + used;
    end_ = memory_.get() + capacity;
  }

  std::unique_ptr<char[]> memory_;
  char* at_ = nullptr;
  char* end_ = nullptr;
};

// The encodings of the log: varints (LEB128), zigzag integers, fixed doubles, length-prefixed strings. Writers append
// to a std::string or a ByteBuffer.

inline constexpr int kMaxVarintBytes = 10;

// Writes at most kMaxVarintBytes to `to` and returns the byte after the last.
inline char* EncodeVarint(uint64_t value, char* to) {
  while (value >= 0x80) {
    *to++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *to++ = static_cast<char>(value);
  return to;
}

template <typename Out>
void AppendVarint(uint64_t value, Out* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

inline uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
inline int64_t UnZigZag(uint64_t value) { return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1); }

template <typename Out>
void AppendString(std::string_view text, Out* out) {
  AppendVarint(text.size(), out);
  out->append(text);
}

// Bit-exact: nan payloads and -0.0 survive.
template <typename Out>
void AppendDouble(double value, Out* out) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out->append(bytes, sizeof value);
}

template <typename Out>
void AppendFixed64(uint64_t value, Out* out) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out->append(bytes, sizeof value);
}

// Reads what the functions above write. Does not own the bytes. Calls return false,
// without moving, if the bytes end too early or are malformed.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes)
      : begin_(bytes.data()), at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool Varint(uint64_t* value) {
    uint64_t result = 0;
    const char* at = at_;
    for (int shift = 0; shift < 64 && at < end_; shift += 7) {
      const uint64_t byte = static_cast<uint8_t>(*at++);
      if (shift == 63 && byte > 1) return false;
      result |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        *value = result;
        at_ = at;
        return true;
      }
    }
    return false;
  }
  bool Byte(uint8_t* value) {
    if (at_ == end_) return false;
    *value = static_cast<uint8_t>(*at_++);
    return true;
  }
  bool Double(double* value) {
    if (remaining() < sizeof *value) return false;
    std::memcpy(value, at_, sizeof *value);
    at_ += sizeof *value;
    return true;
  }
  bool Fixed64(uint64_t* value) {
    if (remaining() < sizeof *value) return false;
    std::memcpy(value, at_, sizeof *value);
    at_ += sizeof *value;
    return true;
  }
  bool Bytes(uint64_t count, std::string_view* bytes) {
    if (count > remaining()) return false;
    *bytes = std::string_view(at_, count);
    at_ += count;
    return true;
  }
  bool String(std::string_view* text) {
    const char* const start = at_;
    uint64_t count;
    if (Varint(&count) && Bytes(count, text)) return true;
    at_ = start;
    return false;
  }

  size_t remaining() const { return end_ - at_; }
  size_t offset() const { return at_ - begin_; }
  bool done() const { return at_ == end_; }

 private:
  const char* begin_;
  const char* at_;
  const char* end_;
};

// The hash of the log's checksums and of interned descriptions: XXH3_64.
inline uint64_t Hash64(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

// The same hash, for bytes in pieces.
class StreamingHash {
 public:
  StreamingHash() { XXH3_64bits_reset(&state_); }
  void Update(const void* data, size_t bytes) { XXH3_64bits_update(&state_, data, bytes); }
  uint64_t Digest() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_BYTES_H_
