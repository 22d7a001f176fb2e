#include "serialize/export/column_batch.h"

#include <string>
#include <utility>

#include "serialize/base/text.h"
#include "serialize/export/arrow_sharing.h"
#include "serialize/forms/forms.h"

namespace torchtrace {
namespace {

// Of arrays and schemas that only this file sees: others get them shared or copied.
void ReleaseStream(ArrowArrayStream* stream) { stream->release = nullptr; }
const char* NoError(ArrowArrayStream* /*stream*/) { return nullptr; }

void AppendInt32(int32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

std::string MetadataBytes(const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::string bytes;
  AppendInt32(static_cast<int32_t>(metadata.size()), &bytes);
  for (const auto& [key, value] : metadata) {
    for (const std::string* text : {&key, &value}) {
      AppendInt32(static_cast<int32_t>(text->size()), &bytes);
      bytes.append(*text);
    }
  }
  return bytes;
}

}  // namespace

ColumnBatch::ColumnBatch(const std::vector<Column>& columns, std::function<std::string_view(int64_t)> text)
    : text_(std::move(text)), dictionaries_(columns.size()) {
  for (const Column& column : columns) types_.push_back(column.type);
  Clear();
}

int32_t ColumnBatch::DictionaryIndex(size_t column, int64_t cell) {
  Dictionary& dictionary = dictionaries_[column];
  const size_t number = static_cast<size_t>(cell);
  if (number >= dictionary.index_of.size()) dictionary.index_of.resize(number + number / 2 + 16, -1);
  int32_t& index = dictionary.index_of[number];
  if (index >= 0) return index;
  index = static_cast<int32_t>(dictionary.cells.size());
  dictionary.cells.push_back(cell);
  std::string_view text = text_(cell);
  std::string quoted;
  if (!IsValidUtf8(text)) {  // the format requires UTF-8
    quoted = QuoteText(text);
    text = std::string_view(quoted).substr(1, quoted.size() - 2);
  }
  ColumnData& data = rows_->columns[column];
  data.bytes.insert(data.bytes.end(), text.begin(), text.end());
  data.offsets.push_back(static_cast<int32_t>(data.bytes.size()));
  dictionary_bytes_ += text.size() + sizeof(int32_t);
  return index;
}

void ColumnBatch::Add(const std::vector<int64_t>& row) {
  for (size_t i = 0; i < types_.size(); ++i) {
    ColumnData& column = rows_->columns[i];
    const int64_t cell = row[i];
    const bool valid = cell != kNullCell;
    if (row_count_ % 8 == 0) column.valid.push_back(0);
    if (valid) {
      column.valid.back() |= static_cast<uint8_t>(1u << row_count_ % 8);
    } else {
      ++column.nulls;
    }
    if (HoldsTexts(column.type)) {
      column.indices.push_back(valid ? DictionaryIndex(i, cell) : 0);
    } else {
      column.numbers.push_back(valid ? cell : 0);
    }
  }
  ++row_count_;
}

void ColumnBatch::Export(ArrowArray* batch) {
  for (ColumnData& column : rows_->columns) {
    const bool is_text = HoldsTexts(column.type);
    column.buffers[0] = column.nulls == 0 ? nullptr : column.valid.data();
    column.buffers[1] = is_text ? static_cast<const void*>(column.indices.data()) : column.numbers.data();
    column.array = {};
    column.array.length = static_cast<int64_t>(row_count_);
    column.array.null_count = column.nulls;
    column.array.n_buffers = 2;
    column.array.buffers = column.buffers;
    if (!is_text) continue;
    column.dictionary_buffers[1] = column.offsets.data();
    column.dictionary_buffers[2] = column.bytes.data();
    column.dictionary = {};
    column.dictionary.length = static_cast<int64_t>(column.offsets.size() - 1);
    column.dictionary.n_buffers = 3;
    column.dictionary.buffers = column.dictionary_buffers;
    column.array.dictionary = &column.dictionary;
  }
  ArrowArray root = {};
  root.length = static_cast<int64_t>(row_count_);
  root.n_buffers = 1;
  root.buffers = rows_->buffers;
  root.n_children = static_cast<int64_t>(rows_->children.size());
  root.children = rows_->children.data();
  ShareArray(root, rows_, batch);
}

void ColumnBatch::Clear() {
  rows_ = std::make_shared<Rows>();
  rows_->columns.resize(types_.size());
  for (size_t i = 0; i < types_.size(); ++i) {
    ColumnData& column = rows_->columns[i];
    column.type = types_[i];
    column.offsets.assign(1, 0);
    rows_->children.push_back(&column.array);
    Dictionary& dictionary = dictionaries_[i];
    for (const int64_t cell : dictionary.cells) dictionary.index_of[static_cast<size_t>(cell)] = -1;
    dictionary.cells.clear();
  }
  row_count_ = 0;
  dictionary_bytes_ = 0;
}

BatchStream::BatchStream(const std::vector<Column>& columns,
                         const std::vector<std::pair<std::string, std::string>>& metadata)
    : metadata_(MetadataBytes(metadata)),
      json_metadata_(MetadataBytes({{"torchtrace.text", "json"}})),
      fields_(columns.size()),
      dictionaries_(columns.size()) {
  for (size_t i = 0; i < columns.size(); ++i) {
    ArrowSchema& field = fields_[i];
    field.format = "l";
    field.name = columns[i].name;
    field.flags = ARROW_FLAG_NULLABLE;
    children_.push_back(&field);
    if (!HoldsTexts(columns[i].type)) continue;
    if (columns[i].type == ColumnType::kJson) field.metadata = json_metadata_.data();
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
}

ArrowArrayStream BatchStream::Offer(ColumnBatch* batch) {
  offered_ = batch->rows() > 0 ? batch : nullptr;
  return {GetSchema, GetNext, NoError, ReleaseStream, this};
}

int BatchStream::GetSchema(ArrowArrayStream* stream, ArrowSchema* out) {
  CopySchema(static_cast<BatchStream*>(stream->private_data)->root_, out);
  return 0;
}

int BatchStream::GetNext(ArrowArrayStream* stream, ArrowArray* out) {
  ColumnBatch* const batch = std::exchange(static_cast<BatchStream*>(stream->private_data)->offered_, nullptr);
  *out = {};
  if (batch != nullptr) batch->Export(out);
  return 0;
}

}  // namespace torchtrace
