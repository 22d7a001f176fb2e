#include "serialize/base/text_table.h"

#include <algorithm>
#include <string_view>

#include "serialize/base/plain_text.h"
#include "serialize/base/utf8.h"

namespace torchtrace {
namespace {

size_t WidthOf(std::string_view text) {
  size_t width = 0;
  for (; !text.empty(); ++width) text.remove_prefix(DecodeUtf8(text).bytes);
  return width;
}

// A bar ends a cell wherever it stands, in code too.
std::string EscapeMarkdown(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// `text` as code: between more backticks than it has in a row.
std::string MarkdownCode(std::string_view text) {
  size_t longest = 0, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string ticks(longest + 1, '`');
  const std::string space = longest > 0 ? " " : "";
  return ticks + space + EscapeMarkdown(text) + space + ticks;
}

}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  std::vector<std::string> titles;
  titles.reserve(columns_.size());
  for (Column& column : columns_) {
    column.title = PlainLine(column.title);
    column.group = PlainLine(column.group);
    titles.push_back(column.title);
  }
  AddRow(std::move(titles));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = PlainLine(cell);
  rows_.push_back(std::move(cells));
}

std::string TextTable::Format() const {
  std::vector<size_t> widths(columns_.size());
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  }
  std::string out;
  const std::vector<std::pair<size_t, size_t>> groups = Groups();
  size_t at = 0;  // column of the terminal
  for (const auto& [first, last] : groups) {
    size_t start = 0, width = 0;
    for (size_t i = 0; i <= last; ++i) (i < first ? start : width) += widths[i] + (i < last ? 2 : 0);
    const std::string& name = columns_[first].group;
    if (WidthOf(name) > width) {
      widths[last] += WidthOf(name) - width;
      width = WidthOf(name);
    }
    out.append(start + width - WidthOf(name) - at, ' ');
    out += name;
    at = start + width;
  }
  if (!groups.empty()) out += '\n';
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

std::vector<std::pair<size_t, size_t>> TextTable::Groups() const {
  std::vector<std::pair<size_t, size_t>> groups;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].group.empty()) continue;
    if (!groups.empty() && groups.back().second + 1 == i && columns_[groups.back().first].group == columns_[i].group) {
      groups.back().second = i;
    } else {
      groups.emplace_back(i, i);
    }
  }
  return groups;
}

std::string TextTable::FormatMarkdown() const {
  std::string out = "|";
  for (const Column& column : columns_) {
    out += ' ' + EscapeMarkdown(column.group) + (column.group.empty() ? "" : " ") + EscapeMarkdown(column.title) + " |";
  }
  out += "\n|";
  for (const Column& column : columns_) out += column.align == kLeft ? "---|" : "--:|";
  out += '\n';
  for (size_t row = 1; row < rows_.size(); ++row) {
    out += '|';
    for (size_t i = 0; i < rows_[row].size(); ++i) {
      const std::string& cell = rows_[row][i];
      out += ' ' + (columns_[i].align == kLeft && !cell.empty() ? MarkdownCode(cell) : EscapeMarkdown(cell)) + " |";
    }
    out += '\n';
  }
  return out;
}

}  // namespace torchtrace
