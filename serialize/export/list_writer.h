// Writes a file that is one long list: items collect in memory and are written in blocks.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_LIST_WRITER_H_
#define TORCHTRACE_SERIALIZE_EXPORT_LIST_WRITER_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "serialize/export/exports.h"

namespace torchtrace {

class ListWriter {
 public:
  explicit ListWriter(std::ostream* out) : out_(out) {}

  // The text that is still to be written; append to it.
  std::string text;

  // Starts the line of an item.
  void BeginItem() { text += std::exchange(first_, false) ? "\n" : ",\n"; }

  // Writes once a block of text has collected. Aborted when the stream failed.
  absl::Status WriteBlocks() { return text.size() < kBlockBytes ? absl::OkStatus() : Write(); }
  absl::Status Write() {
    out_->write(text.data(), static_cast<std::streamsize>(text.size()));
    text.clear();
    return StreamStatus(*out_);
  }
  // Writes the rest.
  absl::Status Finish() {
    if (absl::Status s = Write(); !s.ok()) return s;
    return FinishStream(out_);
  }

 private:
  static constexpr size_t kBlockBytes = 64 << 10;

  std::ostream* const out_;
  bool first_ = true;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_LIST_WRITER_H_
