// torchtrace_parquet-arrow<N>.so: see parquet_module.h. This file alone sees Arrow.

#include "serialize/export/parquet_module.h"

#include <arrow/array.h>
#include <arrow/c/bridge.h>
#include <arrow/config.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/type_fwd.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <string>

namespace torchtrace {
namespace {

// Dictionaries of texts may be this large before Parquet gives up on them. Row groups are
// smaller: column_batch.h.
constexpr int64_t kMaxDictionaryBytes = int64_t{256} << 20;

class CallbackStream final : public arrow::io::OutputStream {
 public:
  CallbackStream(ParquetWriteFunction write, void* context) : write_(write), context_(context) {
    set_mode(arrow::io::FileMode::WRITE);
  }

  using arrow::io::OutputStream::Write;

  arrow::Status Write(const void* bytes, int64_t size) override {
    if (write_(context_, bytes, static_cast<size_t>(size)) != 0) return arrow::Status::IOError("cannot write");
    written_ += size;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> Tell() const override { return written_; }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }

 private:
  const ParquetWriteFunction write_;
  void* const context_;
  int64_t written_ = 0;
  bool closed_ = false;
};

struct Writer {
  std::shared_ptr<arrow::Schema> schema;
  std::shared_ptr<CallbackStream> stream;
  std::unique_ptr<parquet::arrow::FileWriter> file;
};

// Runs `body`, which returns a Status; parquet also throws.
template <typename Body>
int Guarded(char* error, size_t error_bytes, Body body) {
  std::string message;
  try {
    const arrow::Status status = body();
    if (status.ok()) return 0;
    message = status.ToString();
  } catch (const std::exception& exception) {
    message = exception.what();
  } catch (...) {
    message = "unknown exception";
  }
  std::snprintf(error, error_bytes, "%s", message.c_str());
  return 1;
}

void* Open(ArrowSchema* schema, const char* const* counters, ParquetWriteFunction write, void* context, char* error,
           size_t error_bytes) {
  auto writer = std::make_unique<Writer>();
  const int failed = Guarded(error, error_bytes, [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(writer->schema, arrow::ImportSchema(schema));
    writer->stream = std::make_shared<CallbackStream>(write, context);
    parquet::WriterProperties::Builder properties;
    properties.created_by("torchtrace");
    properties.compression(parquet::Compression::ZSTD);
    properties.compression_level(1);
    properties.version(parquet::ParquetVersion::PARQUET_2_6);
    properties.dictionary_pagesize_limit(kMaxDictionaryBytes);
    for (; *counters != nullptr; ++counters) {
      properties.disable_dictionary(*counters);
      properties.encoding(*counters, parquet::Encoding::DELTA_BINARY_PACKED);
    }
    parquet::ArrowWriterProperties::Builder arrow_properties;
    // Readers that know Arrow get dictionaries back.
    arrow_properties.store_schema();
    ARROW_ASSIGN_OR_RAISE(
        writer->file, parquet::arrow::FileWriter::Open(*writer->schema, arrow::default_memory_pool(), writer->stream,
                                                       properties.build(), arrow_properties.build()));
    return arrow::Status::OK();
  });
  return failed != 0 ? nullptr : writer.release();
}

int Add(void* handle, ArrowArray* array, char* error, size_t error_bytes) {
  Writer* const writer = static_cast<Writer*>(handle);
  return Guarded(error, error_bytes, [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::RecordBatch> batch, arrow::ImportRecordBatch(array, writer->schema));
    const int64_t rows = batch->num_rows();
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Table> table, arrow::Table::FromRecordBatches({batch}));
    return writer->file->WriteTable(*table, rows);
  });
}

int Finish(void* handle, char* error, size_t error_bytes) {
  Writer* const writer = static_cast<Writer*>(handle);
  return Guarded(error, error_bytes, [&] { return writer->file->Close(); });
}

// A file that was never finished closes itself, which writes to the stream; it may throw.
void Close(void* handle) {
  char ignored[8];
  Guarded(ignored, sizeof ignored, [&] {
    delete static_cast<Writer*>(handle);
    return arrow::Status::OK();
  });
}

constexpr ParquetModule kModule = {kParquetModuleVersion, ARROW_VERSION_STRING, Open, Add, Finish, Close};

}  // namespace
}  // namespace torchtrace

extern "C" __attribute__((visibility("default"))) const torchtrace::ParquetModule* torchtrace_parquet_module() {
  return &torchtrace::kModule;
}
