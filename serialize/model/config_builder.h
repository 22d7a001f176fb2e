// The bytes of one call while they are put together: identity, then facets
// (serialize/model/config.h). One per thread and reused, so that describing a call
// allocates nothing. A call that starts while another is being described would
// share the scratch: describing runs no code that could make one.

#ifndef TORCHTRACE_SERIALIZE_MODEL_CONFIG_BUILDER_H_
#define TORCHTRACE_SERIALIZE_MODEL_CONFIG_BUILDER_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "serialize/base/byte_buffer.h"
#include "serialize/model/config.h"
#include "serialize/model/value.h"

namespace torchtrace {

// What bounds a description. What is left out is counted in the value itself.
inline constexpr size_t kMaxStringBytes = 1024;
inline constexpr size_t kMaxItems = 1024;
inline constexpr int kMaxDepth = 12;
// Beyond this many bytes further items of containers are cut.
inline constexpr size_t kMaxConfigBytes = 64 << 10;

// The part of UTF-8 `text` that is kept: never cut inside a character.
inline std::string_view KeptText(std::string_view text) {
  size_t bytes = std::min(text.size(), kMaxStringBytes);
  while (bytes < text.size() && bytes > 0 && (text[bytes] & 0xc0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

class ConfigBuilder {
 public:
  using Writer = BasicValueWriter<ByteBuffer>;

  // `head`: level and API as identity bytes (see EncodeHead).
  void Begin(std::string_view head) {
    bytes_.clear();
    bytes_.append(head);
    facets_.clear();
    tensors_ = 0;
    facet_count_ = 0;
  }
  ByteBuffer* bytes() { return &bytes_; }
  Writer values() { return Writer(&bytes_); }
  bool full() const { return bytes_.size() > kMaxConfigBytes; }

  // After each tensor; `subclass` is empty for torch.Tensor itself.
  void EndTensor(bool requires_grad, std::string_view subclass) {
    if (requires_grad || !subclass.empty()) {
      ++facet_count_;
      AppendVarint(tensors_, &facets_);
      uint64_t bits = 0;
      if (requires_grad) bits |= kFacetRequiresGrad;
      if (!subclass.empty()) bits |= kFacetSubclass;
      AppendVarint(bits, &facets_);
      if (!subclass.empty()) AppendString(subclass, &facets_);
    }
    ++tensors_;
  }

  // The whole config; the identity is its first identity_bytes().
  std::string_view Finish() {
    identity_bytes_ = static_cast<uint32_t>(bytes_.size());
    AppendVarint(facet_count_, &bytes_);
    bytes_.append(facets_.view());
    return bytes_.view();
  }
  uint32_t identity_bytes() const { return identity_bytes_; }

  static std::string EncodeHead(int level, std::string_view api) {
    std::string head(1, static_cast<char>(level));
    AppendString(api, &head);
    return head;
  }

 private:
  ByteBuffer bytes_;
  ByteBuffer facets_;
  uint64_t tensors_ = 0;
  uint64_t facet_count_ = 0;
  uint32_t identity_bytes_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_CONFIG_BUILDER_H_
