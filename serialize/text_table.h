// A table in columns for a terminal. Widths count characters, not bytes; the
// last column is not padded, so long texts belong there.

#ifndef TORCHTRACE_SERIALIZE_TEXT_TABLE_H_
#define TORCHTRACE_SERIALIZE_TEXT_TABLE_H_

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
  };

  explicit TextTable(std::vector<Column> columns);
  // As many cells as columns.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Each line ends in a line break and has no blanks before it.
  std::string Format() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TEXT_TABLE_H_
