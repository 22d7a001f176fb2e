// A table in columns for a terminal, or in Markdown. Widths count characters, not
// bytes; the last column is not padded, so long texts belong there.

#ifndef TORCHTRACE_SERIALIZE_BASE_TEXT_TABLE_H_
#define TORCHTRACE_SERIALIZE_BASE_TEXT_TABLE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace torchtrace {

class TextTable {
 public:
  enum Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = kRight;
    // Neighbours of one group stand under its name.
    std::string group = {};
  };

  explicit TextTable(std::vector<Column> columns);
  // As many cells as columns; each becomes a PlainLine.
  void AddRow(std::vector<std::string> cells);

  // Each line ends in a line break and has no blanks before it.
  std::string Format() const;
  // As GitHub's tables: cells of left columns are shown as code.
  std::string FormatMarkdown() const;

 private:
  // The first and last column of each group.
  std::vector<std::pair<size_t, size_t>> Groups() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_TEXT_TABLE_H_
