// Parquet: rows are collected into a batch, and each full batch becomes a row group.

#include "serialize/export/parquet_table.h"

#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialize/export/column_batch.h"
#include "serialize/export/exporter.h"
#include "serialize/export/table_writer.h"

namespace torchtrace {
namespace {

thread_local ParquetRowsFunction g_write_rows = nullptr;

// Of the table being written.
thread_local std::ostream* g_out = nullptr;
thread_local std::string* g_error = nullptr;

class ParquetTable final : public TableWriter {
 public:
  ParquetTable(std::vector<Column> columns, const std::vector<std::pair<std::string, std::string>>& metadata,
               std::ostream* out)
      : TableWriter(std::move(columns)),
        batch_(this->columns(), [this](int64_t cell) { return text(cell); }),
        stream_(this->columns(), metadata) {
    for (const Column& column : this->columns()) {
      if (column.type != ColumnType::kCounter) continue;
      absl::StrAppend(&counters_, counters_.empty() ? "" : ",", column.name);
    }
    g_out = out;
    g_error = &error_;
  }

  ~ParquetTable() override {
    g_out = nullptr;
    g_error = nullptr;
  }

  absl::Status Open() { return WriteBatch(); }

  absl::Status Add(const std::vector<int64_t>& row) override {
    batch_.Add(row);
    return batch_.full() ? WriteBatch() : absl::OkStatus();
  }

  absl::Status Finish() override {
    if (batch_.rows() > 0) {
      if (absl::Status s = WriteBatch(); !s.ok()) return s;
    }
    if (g_write_rows(nullptr, counters_.c_str()) != 0) return Failed();
    return FinishStream(g_out);
  }

 private:
  absl::Status WriteBatch() {
    ArrowArrayStream rows = stream_.Offer(&batch_);
    if (g_write_rows(&rows, counters_.c_str()) != 0) return Failed();
    batch_.Clear();
    return absl::OkStatus();
  }

  absl::Status Failed() const {
    const absl::Status written = StreamStatus(*g_out);
    return written.ok() ? absl::FailedPreconditionError(error_) : written;
  }

  ColumnBatch batch_;
  BatchStream stream_;
  std::string counters_;
  std::string error_;
};

absl::StatusOr<std::unique_ptr<TableWriter>> MakeParquetTable(std::vector<Column> columns, std::ostream* out,
                                                              const ExportOptions& options) {
  std::vector<std::pair<std::string, std::string>> metadata;
  if (!options.version.empty()) {
    metadata = {{"torchtrace.version", options.version}, {"torchtrace.table", options.table}};
  }
  auto table = std::make_unique<ParquetTable>(std::move(columns), metadata, out);
  if (absl::Status s = table->Open(); !s.ok()) return s;
  return table;
}

constexpr char kProgram[] =
#include "serialize/export/parquet_writer.inc"
    ;

}  // namespace

void SetParquetRowsFunction(ParquetRowsFunction function) { g_write_rows = function; }

extern "C" __attribute__((visibility("default"))) int torchtrace_export_write(const void* bytes, size_t size) {
  g_out->write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  return g_out->good() ? 0 : 1;
}

extern "C" __attribute__((visibility("default"))) void torchtrace_export_failed(const char* why) { *g_error = why; }

extern const Exporter kParquetExporter;
const Exporter kParquetExporter = {
    .name = "parquet",
    .help = "columns, compressed by zstd; needs pyarrow",
    .suffixes = {"parquet"},
    .provenance = Provenance::kAlways,
    .binary = true,
    .packed = true,
    .python_program = kProgram,
    .write = WritesTables{MakeParquetTable},
};

}  // namespace torchtrace
