// ColumnBatch collects rows of a table column by column and exports them through the
// Arrow C data interface: a number as a 64-bit integer, a text as an index into the
// batch's own dictionary. Memory is bounded: the caller takes a batch and clears it when
// it is full(). Not thread-safe.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_COLUMN_BATCH_H_
#define TORCHTRACE_SERIALIZE_EXPORT_COLUMN_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serialize/export/arrow_c_data.h"
#include "serialize/export/table_writer.h"

namespace torchtrace {

class ColumnBatch {
 public:
  // Enough for readers to work on row groups in parallel; some 100 bytes each.
  static constexpr size_t kMaxRows = 256 * 1024;
  // Offsets into a dictionary's bytes have 32 bits.
  static constexpr size_t kMaxDictionaryBytes = size_t{64} << 20;

  // `text` returns the text of a cell, which may be any bytes.
  ColumnBatch(const std::vector<Column>& columns, std::function<std::string_view(int64_t cell)> text);
  ColumnBatch(const ColumnBatch&) = delete;
  ColumnBatch& operator=(const ColumnBatch&) = delete;

  void Add(const std::vector<int64_t>& row);
  size_t rows() const { return row_count_; }
  bool full() const { return row_count_ >= kMaxRows || dictionary_bytes_ >= kMaxDictionaryBytes; }

  // Exports the rows as a struct of columns, which keeps them, without copying. Then call Clear.
  void Export(ArrowArray* batch);
  void Clear();

 private:
  struct ColumnData {
    ColumnType type = ColumnType::kInt;
    int64_t nulls = 0;
    std::vector<uint8_t> valid;    // a bit per row
    std::vector<int64_t> numbers;  // kInt, kCounter
    // Texts: indices into the dictionary, whose texts are stored back to back.
    std::vector<int32_t> indices;
    std::vector<int32_t> offsets;
    std::vector<char> bytes;

    // Export points at these.
    ArrowArray array = {};
    ArrowArray dictionary = {};
    const void* buffers[2] = {};
    const void* dictionary_buffers[3] = {};
  };

  struct Rows {
    std::vector<ColumnData> columns;
    std::vector<ArrowArray*> children;
    const void* buffers[1] = {};
  };
  // Which texts a column's dictionary has.
  struct Dictionary {
    std::vector<int64_t> cells;     // by index
    std::vector<int32_t> index_of;  // by cell: its index, or -1
  };

  int32_t DictionaryIndex(size_t column, int64_t cell);

  const std::function<std::string_view(int64_t cell)> text_;
  std::vector<ColumnType> types_;
  size_t row_count_ = 0;
  size_t dictionary_bytes_ = 0;
  std::vector<Dictionary> dictionaries_;  // by column
  std::shared_ptr<Rows> rows_;
};

// Offers batches of such columns as an Arrow C stream, with `metadata` in the schema. Fields of texts that are JSON say
// so: {"torchtrace.text": "json"}.
class BatchStream {
 public:
  BatchStream(const std::vector<Column>& columns, const std::vector<std::pair<std::string, std::string>>& metadata);
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  // A stream of that one batch; an empty stream when it has no rows. The consumer must release it before the next Offer
  // and before `batch` changes; what it got from it lives as long as it likes.
  ArrowArrayStream Offer(ColumnBatch* batch);

 private:
  static int GetSchema(ArrowArrayStream* stream, ArrowSchema* out);
  static int GetNext(ArrowArrayStream* stream, ArrowArray* out);

  const std::string metadata_, json_metadata_;
  std::vector<ArrowSchema> fields_;
  std::vector<ArrowSchema*> children_;
  std::vector<ArrowSchema> dictionaries_;  // by column; of the texts
  ArrowSchema root_ = {};
  ColumnBatch* offered_ = nullptr;  // until it is taken
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_COLUMN_BATCH_H_
