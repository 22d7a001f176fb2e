// What CSV and JSON Lines share: a row is a line of text, put together in a buffer, and
// each text is spelled once. For csv_table.cc and jsonl_table.cc.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_LINE_TABLE_H_
#define TORCHTRACE_SERIALIZE_EXPORT_LINE_TABLE_H_

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "serialize/export/table_writer.h"

namespace torchtrace {

class LineTable : public TableWriter {
 public:
  LineTable(std::vector<Column> columns, std::ostream* out) : TableWriter(std::move(columns)), out_(out) {}

  absl::Status Add(const std::vector<int64_t>& row) final {
    AppendRow(row, &buffer_);
    buffer_.push_back('\n');
    return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
  }

  absl::Status Finish() override {
    absl::Status status = Flush();
    out_->flush();
    return out_->good() ? status : absl::AbortedError("cannot write the output");
  }

 protected:
  virtual void AppendRow(const std::vector<int64_t>& row, std::string* out) = 0;
  // `text` as the format spells it.
  virtual std::string Spell(std::string_view text) const = 0;

  void AppendText(int64_t cell, std::string* out) {
    const size_t number = static_cast<size_t>(cell);
    if (number >= spelled_.size()) spelled_.resize(number + number / 2 + 16);
    std::string& spelled = spelled_[number];
    if (spelled.empty()) spelled = Spell(text(cell));
    out->append(spelled);
  }

  static void AppendInt(int64_t value, std::string* out) {
    char digits[24];
    out->append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }

  std::string buffer_;

 private:
  static constexpr size_t kBufferBytes = 64 * 1024;

  absl::Status Flush() {
    out_->write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    buffer_.clear();
    return out_->good() ? absl::OkStatus() : absl::AbortedError("cannot write the output");
  }

  std::ostream* const out_;
  std::vector<std::string> spelled_;  // by number; empty: not yet
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_LINE_TABLE_H_
