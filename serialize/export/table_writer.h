// Tables of calls or configs: the interface of their writers, numbered texts, and the base class of text formats.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_TABLE_WRITER_H_
#define TORCHTRACE_SERIALIZE_EXPORT_TABLE_WRITER_H_

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

namespace torchtrace {

// Numbers texts from 0 in the order in which they are first seen. Owns them.
class TextNumbers {
 public:
  int64_t Number(std::string_view text) {
    const auto at = numbers_.find(text);
    if (at != numbers_.end()) return at->second;
    const int64_t number = static_cast<int64_t>(texts_.size());
    numbers_.emplace(texts_.emplace_back(text), number);
    return number;
  }

  size_t size() const { return texts_.size(); }
  // Valid while this object lives.
  std::string_view text(size_t number) const { return texts_[number]; }

 private:
  std::deque<std::string> texts_;  // a deque never moves them
  absl::flat_hash_map<std::string_view, int64_t> numbers_;
};

enum class ColumnType : uint8_t {
  kInt,      // few different numbers
  kCounter,  // numbers that mostly grow, or hardly repeat: times, ids
  kText,
  kJson,  // a text that is JSON on one line; JSON Lines writes it as it is
};

inline bool HoldsTexts(ColumnType type) { return type == ColumnType::kText || type == ColumnType::kJson; }

struct Column {
  const char* name;
  ColumnType type;
};

inline constexpr int64_t kNullCell = INT64_MIN;

// TableWriter writes rows with fixed columns in one format: CSV, JSON Lines or
// Parquet. A cell is one int64: a number, or the number of an interned text, so that a
// million rows with the same text hash and escape it once.
// Not thread-safe; memory grows with the distinct texts, not with the rows.
//
//   const int64_t add = table->Intern("torch.add");
//   table->Add({call, add, kNullCell});
class TableWriter {
 public:
  explicit TableWriter(std::vector<Column> columns) : columns_(std::move(columns)) {}
  virtual ~TableWriter() = default;
  TableWriter(const TableWriter&) = delete;
  TableWriter& operator=(const TableWriter&) = delete;

  const std::vector<Column>& columns() const { return columns_; }

  // Returns the cell for `text`, the same for equal texts.
  int64_t Intern(std::string_view text) { return texts_.Number(text); }

  // One cell per column; kNullCell: unknown. Aborted when the stream failed.
  virtual absl::Status Add(const std::vector<int64_t>& row) = 0;
  virtual absl::Status Finish() = 0;

 protected:
  std::string_view text(int64_t cell) const { return texts_.text(static_cast<size_t>(cell)); }

 private:
  const std::vector<Column> columns_;
  TextNumbers texts_;
};

// RFC 4180, with a header line; unknown cells are empty.
std::unique_ptr<TableWriter> MakeCsvTable(std::vector<Column> columns, std::ostream* out);

// An object per row, without the members that are unknown.
std::unique_ptr<TableWriter> MakeJsonlTable(std::vector<Column> columns, std::ostream* out);

// Base class of CSV and JSON Lines (line_tables.cc): a row is a line of text, built in a
// buffer, and each text is spelled once.
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

#endif  // TORCHTRACE_SERIALIZE_EXPORT_TABLE_WRITER_H_
