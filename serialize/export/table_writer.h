// TableWriter writes rows with fixed columns in one format: CSV, JSON Lines or
// Parquet. A cell is one int64: a number, or the number of a text that was told
// before, so that a million rows with the same text hash and escape it once.
// Not thread-safe; memory goes with the different texts, not with the rows.
//
//   const int64_t add = table->Intern("torch.add");
//   table->Add({call, add, kNullCell});

#ifndef TORCHTRACE_SERIALIZE_EXPORT_TABLE_WRITER_H_
#define TORCHTRACE_SERIALIZE_EXPORT_TABLE_WRITER_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "serialize/export/text_numbers.h"

namespace torchtrace {

enum class ColumnType : uint8_t {
  kInt,      // few different numbers
  kCounter,  // numbers that mostly grow, or hardly repeat: times, ids
  kText,
};

struct Column {
  const char* name;
  ColumnType type;
};

inline constexpr int64_t kNullCell = INT64_MIN;

class TableWriter {
 public:
  explicit TableWriter(std::vector<Column> columns) : columns_(std::move(columns)) {}
  virtual ~TableWriter() = default;
  TableWriter(const TableWriter&) = delete;
  TableWriter& operator=(const TableWriter&) = delete;

  const std::vector<Column>& columns() const { return columns_; }

  // What a cell holds for `text`: the same for the same text.
  int64_t Intern(std::string_view text) { return texts_.Number(text); }

  // One cell per column; kNullCell: nothing is known. Aborted when the stream failed.
  virtual absl::Status Add(const std::vector<int64_t>& row) = 0;
  virtual absl::Status Finish() = 0;

 protected:
  std::string_view text(int64_t cell) const { return texts_.text(static_cast<size_t>(cell)); }

 private:
  const std::vector<Column> columns_;
  TextNumbers texts_;
};

// RFC 4180, with a line of names first; nothing for what is not known.
std::unique_ptr<TableWriter> MakeCsvTable(std::vector<Column> columns, std::ostream* out);

// An object per row; members that are not known are left out.
std::unique_ptr<TableWriter> MakeJsonlTable(std::vector<Column> columns, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_TABLE_WRITER_H_
