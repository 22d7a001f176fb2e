// Varints (LEB128), zigzag integers, fixed doubles and length-prefixed strings:
// the alphabet of the log. Writers append to a std::string or a ByteBuffer; ByteReader
// reads a span that it does not own and never reads past its end.

#ifndef TORCHTRACE_SERIALIZE_BASE_VARINT_H_
#define TORCHTRACE_SERIALIZE_BASE_VARINT_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace torchtrace {

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

// Reads what the functions above write. Every call returns false, and moves
// nothing, when the bytes end first or are malformed.
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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_VARINT_H_
