// Bytes that a hook puts together at each call: as std::string as far as the writers of
// varint.h and value.h go, but every step is inline. Owns its memory; clearing keeps it.

#ifndef TORCHTRACE_SERIALIZE_BASE_BYTE_BUFFER_H_
#define TORCHTRACE_SERIALIZE_BASE_BYTE_BUFFER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace torchtrace {

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
  // Forgets what stands behind so many bytes, of those that are there.
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
  // The first `count` of `bytes`: a copy of fixed size costs no call.
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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_BYTE_BUFFER_H_
