// The text of a file that is one long list: its items are put together in memory and written in blocks.

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

  // What is yet to be written; append to it.
  std::string text;

  // Before each item: its line begins.
  void BeginItem() { text += std::exchange(first_, false) ? "\n" : ",\n"; }

  // Writes when there is a block of text. Aborted when the stream failed.
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
