#include "serialize/text_table.h"

#include <algorithm>
#include <string_view>

#include "serialize/utf8.h"

namespace torchtrace {
namespace {

size_t WidthOf(std::string_view text) {
  size_t width = 0;
  for (; !text.empty(); ++width) text.remove_prefix(DecodeUtf8(text).bytes);
  return width;
}

}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  std::vector<std::string> titles;
  titles.reserve(columns_.size());
  for (const Column& column : columns_) titles.push_back(column.title);
  AddRow(std::move(titles));
}

std::string TextTable::Format() const {
  std::vector<size_t> widths(columns_.size());
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  }
  std::string out;
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - WidthOf(row[i]), ' ');
      if (i > 0) out += "  ";
      if (columns_[i].align == kRight) out += padding;
      out += row[i];
      if (columns_[i].align == kLeft && i + 1 < row.size()) out += padding;
    }
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  return out;
}

}  // namespace torchtrace
