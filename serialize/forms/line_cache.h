// Keeps what is made from each config, such as its line of text, so that a
// trace's calls only copy it. Memory is limited: what does not fit any more is
// made again for every call. Not thread-safe; owns the lines.

#ifndef TORCHTRACE_SERIALIZE_FORMS_LINE_CACHE_H_
#define TORCHTRACE_SERIALIZE_FORMS_LINE_CACHE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace torchtrace {

class LineCache {
 public:
  // Makes the line of a ConfigId or VariantId; never empty.
  using Make = std::function<std::string(uint32_t id)>;
  static constexpr uint64_t kDefaultMaxBytes = uint64_t{256} << 20;

  explicit LineCache(Make make, uint64_t max_bytes = kDefaultMaxBytes)
      : make_(std::move(make)), max_bytes_(max_bytes) {}

  // Valid until the next Get.
  std::string_view Get(uint32_t id) {
    if (id >= lines_.size()) lines_.resize(id + id / 2 + 16);
    std::string& line = lines_[id];
    if (!line.empty()) return line;
    scratch_ = make_(id);
    if (bytes_ + scratch_.size() > max_bytes_) return scratch_;
    bytes_ += scratch_.size();
    line = scratch_;
    return line;
  }

 private:
  const Make make_;
  const uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  std::vector<std::string> lines_;
  std::string scratch_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_LINE_CACHE_H_
