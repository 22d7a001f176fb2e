// Parquet: rows are collected into a batch, and each full batch becomes a row group.

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "serialize/export/column_batch.h"
#include "serialize/export/parquet_module.h"
#include "serialize/export/parquet_module_loader.h"
#include "serialize/export/table_writer.h"

namespace torchtrace {
namespace {

constexpr size_t kErrorBytes = 1024;

int WriteToStream(void* stream, const void* bytes, size_t size) {
  std::ostream* const out = static_cast<std::ostream*>(stream);
  out->write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  return out->good() ? 0 : 1;
}

class ParquetTable final : public TableWriter {
 public:
  ParquetTable(std::vector<Column> columns, const ParquetModule* module, std::ostream* out)
      : TableWriter(std::move(columns)),
        module_(module),
        out_(out),
        batch_(this->columns(), [this](int64_t cell) { return text(cell); }) {}

  ~ParquetTable() override {
    if (writer_ != nullptr) module_->close(writer_);
  }

  absl::Status Open(const std::vector<std::pair<std::string, std::string>>& metadata) {
    TableSchema schema(columns(), metadata);
    std::vector<const char*> counters;
    for (const Column& column : columns()) {
      if (column.type == ColumnType::kCounter) counters.push_back(column.name);
    }
    counters.push_back(nullptr);
    char error[kErrorBytes];
    writer_ = module_->open(schema.get(), counters.data(), WriteToStream, out_, error, sizeof error);
    return writer_ != nullptr ? absl::OkStatus() : Failed(error);
  }

  absl::Status Add(const std::vector<int64_t>& row) override {
    batch_.Add(row);
    return batch_.full() ? WriteBatch() : absl::OkStatus();
  }

  absl::Status Finish() override {
    if (batch_.rows() > 0) {
      if (absl::Status s = WriteBatch(); !s.ok()) return s;
    }
    char error[kErrorBytes];
    if (module_->finish(writer_, error, sizeof error) != 0) return Failed(error);
    out_->flush();
    return out_->good() ? absl::OkStatus() : Failed("cannot write");
  }

 private:
  absl::Status WriteBatch() {
    ArrowArray array;
    batch_.Export(&array);
    char error[kErrorBytes];
    if (module_->add(writer_, &array, error, sizeof error) != 0) return Failed(error);
    batch_.Clear();
    return absl::OkStatus();
  }

  absl::Status Failed(const char* error) const {
    if (!out_->good()) return absl::AbortedError("cannot write the output");
    return absl::InternalError(absl::StrCat("Arrow ", module_->arrow_version, " cannot write Parquet: ", error));
  }

  const ParquetModule* const module_;
  std::ostream* const out_;
  ColumnBatch batch_;
  void* writer_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TableWriter>> MakeParquetTable(
    std::vector<Column> columns, const std::vector<std::pair<std::string, std::string>>& metadata,
    const std::string& python, std::ostream* out) {
  const absl::StatusOr<const ParquetModule*> module = LoadParquetModule(python);
  if (!module.ok()) return module.status();
  auto table = std::make_unique<ParquetTable>(std::move(columns), *module, out);
  if (absl::Status s = table->Open(metadata); !s.ok()) return s;
  return table;
}

}  // namespace torchtrace
