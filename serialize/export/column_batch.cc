#include "serialize/export/column_batch.h"

#include <string>
#include <utility>

#include "serialize/base/text.h"
#include "serialize/forms/forms.h"

namespace torchtrace {
namespace {

// The batch or the schema owns everything that is exported, so release only marks it.
void ReleaseArray(ArrowArray* array) { array->release = nullptr; }
void ReleaseSchema(ArrowSchema* schema) { schema->release = nullptr; }
void ReleaseStream(ArrowArrayStream* stream) { stream->release = nullptr; }
const char* NoError(ArrowArrayStream* /*stream*/) { return nullptr; }

void AppendInt32(int32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

}  // namespace

ColumnBatch::ColumnBatch(const std::vector<Column>& columns, std::function<std::string_view(int64_t)> text)
    : text_(std::move(text)), columns_(columns.size()) {
  for (size_t i = 0; i < columns.size(); ++i) {
    columns_[i].type = columns[i].type;
    children_.push_back(&columns_[i].array);
  }
  Clear();
}

int32_t ColumnBatch::DictionaryIndex(ColumnData* column, int64_t cell) {
  const size_t number = static_cast<size_t>(cell);
  if (number >= column->index_of.size()) column->index_of.resize(number + number / 2 + 16, -1);
  int32_t& index = column->index_of[number];
  if (index >= 0) return index;
  index = static_cast<int32_t>(column->cells.size());
  column->cells.push_back(cell);
  std::string_view text = text_(cell);
  std::string quoted;
  if (!IsValidUtf8(text)) {  // the format requires UTF-8
    quoted = QuoteText(text);
    text = std::string_view(quoted).substr(1, quoted.size() - 2);
  }
  column->bytes.insert(column->bytes.end(), text.begin(), text.end());
  column->offsets.push_back(static_cast<int32_t>(column->bytes.size()));
  dictionary_bytes_ += text.size() + sizeof(int32_t);
  return index;
}

void ColumnBatch::Add(const std::vector<int64_t>& row) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    ColumnData& column = columns_[i];
    const int64_t cell = row[i];
    const bool valid = cell != kNullCell;
    if (rows_ % 8 == 0) column.valid.push_back(0);
    if (valid) {
      column.valid.back() |= static_cast<uint8_t>(1u << rows_ % 8);
    } else {
      ++column.nulls;
    }
    if (HoldsTexts(column.type)) {
      column.indices.push_back(valid ? DictionaryIndex(&column, cell) : 0);
    } else {
      column.numbers.push_back(valid ? cell : 0);
    }
  }
  ++rows_;
}

void ColumnBatch::Export(ArrowArray* batch) {
  for (ColumnData& column : columns_) {
    const bool is_text = HoldsTexts(column.type);
    column.buffers[0] = column.nulls == 0 ? nullptr : column.valid.data();
    column.buffers[1] = is_text ? static_cast<const void*>(column.indices.data()) : column.numbers.data();
    column.array = {};
    column.array.length = static_cast<int64_t>(rows_);
    column.array.null_count = column.nulls;
    column.array.n_buffers = 2;
    column.array.buffers = column.buffers;
    column.array.release = ReleaseArray;
    if (!is_text) continue;
    column.dictionary_buffers[1] = column.offsets.data();
    column.dictionary_buffers[2] = column.bytes.data();
    column.dictionary = {};
    column.dictionary.length = static_cast<int64_t>(column.cells.size());
    column.dictionary.n_buffers = 3;
    column.dictionary.buffers = column.dictionary_buffers;
    column.dictionary.release = ReleaseArray;
    column.array.dictionary = &column.dictionary;
  }
  *batch = {};
  batch->length = static_cast<int64_t>(rows_);
  batch->n_buffers = 1;
  batch->buffers = root_buffers_;
  batch->n_children = static_cast<int64_t>(children_.size());
  batch->children = children_.data();
  batch->release = ReleaseArray;
}

void ColumnBatch::Clear() {
  for (ColumnData& column : columns_) {
    column.nulls = 0;
    column.valid.clear();
    column.numbers.clear();
    column.indices.clear();
    column.offsets.assign(1, 0);
    column.bytes.clear();
    for (const int64_t cell : column.cells) column.index_of[static_cast<size_t>(cell)] = -1;
    column.cells.clear();
  }
  rows_ = 0;
  dictionary_bytes_ = 0;
}

BatchStream::BatchStream(const std::vector<Column>& columns,
                         const std::vector<std::pair<std::string, std::string>>& metadata)
    : fields_(columns.size()), dictionaries_(columns.size()) {
  AppendInt32(static_cast<int32_t>(metadata.size()), &metadata_);
  for (const auto& [key, value] : metadata) {
    for (const std::string* text : {&key, &value}) {
      AppendInt32(static_cast<int32_t>(text->size()), &metadata_);
      metadata_.append(*text);
    }
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    ArrowSchema& field = fields_[i];
    field.format = "l";
    field.name = columns[i].name;
    field.flags = ARROW_FLAG_NULLABLE;
    children_.push_back(&field);
    if (!HoldsTexts(columns[i].type)) continue;
    field.format = "i";
    field.dictionary = &dictionaries_[i];
    dictionaries_[i].format = "u";
    dictionaries_[i].name = "";
  }
  root_.format = "+s";
  root_.name = "";
  root_.metadata = metadata.empty() ? nullptr : metadata_.data();
  root_.n_children = static_cast<int64_t>(children_.size());
  root_.children = children_.data();
  root_.release = ReleaseSchema;
}

ArrowArrayStream BatchStream::Offer(ColumnBatch* batch) {
  offered_ = batch->rows() > 0 ? batch : nullptr;
  return {GetSchema, GetNext, NoError, ReleaseStream, this};
}

int BatchStream::GetSchema(ArrowArrayStream* stream, ArrowSchema* out) {
  BatchStream* const self = static_cast<BatchStream*>(stream->private_data);
  // The consumer has released the previous ones.
  for (ArrowSchema& field : self->fields_) field.release = ReleaseSchema;
  for (ArrowSchema& dictionary : self->dictionaries_) dictionary.release = ReleaseSchema;
  *out = self->root_;
  return 0;
}

int BatchStream::GetNext(ArrowArrayStream* stream, ArrowArray* out) {
  ColumnBatch* const batch = std::exchange(static_cast<BatchStream*>(stream->private_data)->offered_, nullptr);
  *out = {};
  if (batch != nullptr) batch->Export(out);
  return 0;
}

}  // namespace torchtrace
